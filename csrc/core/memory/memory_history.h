// History of the device allocators: who allocated what, and when. While it is off, an allocation costs one relaxed
// load.
//
// Two readers: a ring buffer of the latest events, for torch.<device>.memory._snapshot, and a stream of all events, for
// a trace file. Both share the table of live blocks with their stacks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/tracing/source_stack.h"

namespace hp {

class Device;

// Named like the actions of torch.cuda.memory._snapshot.
enum class MemoryAction : uint8_t { kAlloc, kFreeRequested, kFreeCompleted, kSegmentAlloc, kSegmentFree, kOutOfMemory };
const char* memory_action_name(MemoryAction action);

struct MemoryEvent {
  MemoryAction action;
  const Device* device;
  int64_t stream;
  uint64_t address;             // free bytes of the device for kOutOfMemory
  uint64_t bytes;               // of the block; requested bytes for kOutOfMemory
  int64_t allocated, reserved;  // bytes of the device after the event
  int64_t time_ns;              // since the epoch
  StackId stack;
};

enum class StackUse : uint8_t { kNone, kAllocations, kAll };

extern std::atomic<bool> memory_history_enabled;
inline bool memory_history() { return memory_history_enabled.load(std::memory_order_relaxed); }

// Starts the ring buffer of at most `max_events`. A second call changes the settings and keeps the events. With
// `native`, stacks include C++ frames.
void start_memory_history(size_t max_events, StackUse stacks, bool native = false);
void stop_memory_history();
void clear_memory_history();
// Oldest first.
std::vector<MemoryEvent> memory_events(const Device& device);
// The stack of the allocation at this address; 0 if it is unknown.
StackId allocation_stack(const Device& device, uint64_t address);

void start_memory_stream();
void stop_memory_stream();
// Events since the last call.
std::vector<MemoryEvent> take_memory_events();

// For the allocator. Captures the stack if the settings ask for it, for add_memory_event. Call without locks.
StackId memory_event_stack(MemoryAction action);
// Takes no other lock, so the allocator may hold its own.
void add_memory_event(MemoryEvent event);
// " The largest holders are train.py:12 (1.00 GiB in 2 blocks), ...", or "" if nothing is known.
std::string largest_holders(const Device& device);
std::string describe_bytes(uint64_t bytes);

}  // namespace hp
