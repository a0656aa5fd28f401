// Caching allocator of one device: memory freed on a stream is reused by later work of that stream without waiting.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace hp {

class Device;
class Stream;

struct Stat {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
};

// Indexed like torch's StatType.
enum StatKind { kAggregate = 0, kSmallPool = 1, kLargePool = 2, kNumStatKinds = 3 };
using StatArray = std::array<Stat, kNumStatKinds>;

// The meaning of each field is that of torch.cuda.memory_stats.
struct AllocatorStats {
  StatArray allocation, segment, active, inactive_split;
  StatArray allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes, requested_bytes;
  int64_t num_alloc_retries = 0, num_ooms = 0, num_sync_all_streams = 0, num_device_alloc = 0, num_device_free = 0;
};

struct BlockInfo {
  uint64_t address;
  size_t size, requested;
  bool allocated, active;  // active and not allocated: freed, still in use on another stream
  uint64_t number;         // of its last allocation, counted from 1; an address may be given out again, a number not
};

struct SegmentInfo {
  uint64_t address;
  size_t size;
  int64_t stream_id;
  bool is_large;
  std::vector<BlockInfo> blocks;
};

struct Block;  // opaque outside of the allocator

class CachingAllocator {
 public:
  explicit CachingAllocator(Device& device);
  ~CachingAllocator();

  // bytes > 0. Throws OutOfMemory, after the cache was freed and the plug-in asked once more.
  Block* allocate(size_t bytes, Stream& stream);
  void free(Block* block) noexcept;
  // The same, for a caller that has nothing but the block.
  static void release(Block* block) noexcept;
  // The block's memory is also used by work queued on `stream`: it is not reused before that work is done.
  void record_stream(Block* block, Stream& stream);

  static void* address(const Block* block);
  // The allocated block that holds `ptr`, or null. Walks the segments: for error messages and reports.
  Block* find(const void* ptr);
  // Base address and size of the plug-in allocation that holds the block, for interprocess handles.
  std::pair<void*, size_t> segment_of(const Block* block);

  // Gives back to the plug-in what is not in use.
  void empty_cache();
  // Limits this device's reserved memory to a share of its total, 0 < fraction <= 1.
  void set_memory_fraction(double fraction);

  AllocatorStats stats();
  void reset_peak_stats();
  void reset_accumulated_stats();
  std::vector<SegmentInfo> snapshot();

 private:
  Block* take(size_t bytes, Stream& stream);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hp
