// Thread-safe caching allocator of one device. A stream reuses memory freed on it without waiting.
//
// Policy: a request is rounded up to a multiple of 512 bytes (kMinBlock) and served from the stream's free blocks, else
// from a new segment: a piece of memory that the plug-in allocates, split into blocks. Sizes of blocks and segments are
// in block_heap.h, splitting in block_heap.cpp. If the plug-in is out of memory, or the memory fraction is reached, the
// allocator waits briefly for other threads, then for pending streams, returns every unused segment to the plug-in and
// retries. Otherwise segments are returned only by empty_cache() and by the destructor. Pinned host memory has its own
// policy: pinned_allocator.h.
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

// Fields have the meaning that torch.cuda.memory_stats documents.
struct AllocatorStats {
  StatArray allocation, segment, active, inactive_split;
  StatArray allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes, requested_bytes;
  int64_t num_alloc_retries = 0, num_ooms = 0, num_sync_all_streams = 0, num_device_alloc = 0, num_device_free = 0;
};

struct BlockInfo {
  uint64_t address;
  size_t size, requested;
  bool allocated, active;  // active but not allocated: freed, still in use on another stream
  uint64_t number;         // of its last allocation, counted from 1; unlike addresses, never reused
};

struct SegmentInfo {
  uint64_t address;
  size_t size;
  int64_t stream_id;
  bool is_large;
  std::vector<BlockInfo> blocks;
};

struct Block;  // opaque outside the allocator
struct StreamPool;

// Memory for graph captures: only captures that use this pool allocate from it, and as long as it lives, its segments
// are not returned to the plug-in. A captured graph may thus use its addresses at any time.
class MemoryPool {
 public:
  explicit MemoryPool(Device& device) : device(device) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  Device& device;

 private:
  friend class CachingAllocator;
  std::vector<StreamPool*> pools_;  // one per capturing stream; the allocator's lock guards it
};

class CachingAllocator {
 public:
  explicit CachingAllocator(Device& device);
  ~CachingAllocator();

  // Requires bytes > 0. If the device is full, frees the cache and retries before throwing OutOfMemory.
  Block* allocate(size_t bytes, Stream& stream);
  void free(Block* block) noexcept;
  // Frees a block without its allocator at hand.
  static void release(Block* block) noexcept;
  // Marks the block as used on `stream`: after free(), it is reused only once the work queued there is done.
  void record_stream(Block* block, Stream& stream);

  // Allocates for `stream` from `pool` until end_pool.
  void begin_pool(MemoryPool& pool, Stream& stream);
  void end_pool(Stream& stream);

  static void* address(const Block* block);
  static size_t requested_bytes(const Block* block);
  static Device& device_of(const Block* block);
  // Checks the guard zones (guard_zones.h) of the blocks that contain one of `addresses`, or of all blocks if null.
  void check_guard_zones(const std::vector<uint64_t>* addresses);
  // The allocated block that contains `ptr`, or null. Walks the segment's blocks: for error messages and reports.
  Block* find(const void* ptr);
  // Base address and size of the plug-in allocation that contains the block, for interprocess handles.
  std::pair<void*, size_t> segment_of(const Block* block);

  // Returns unused segments to the plug-in.
  void empty_cache();
  // Limits this device's reserved memory to a fraction of its total, 0 < fraction <= 1.
  void set_memory_fraction(double fraction);

  AllocatorStats stats();
  void reset_peak_stats();
  void reset_accumulated_stats();
  std::vector<SegmentInfo> snapshot();

 private:
  friend class MemoryPool;
  Block* take(size_t bytes, Stream& stream);
  Block* take_guarded(size_t bytes, Stream& stream);
  Block* allocate_watched(size_t bytes, Stream& stream);  // while a recorder, guard zones or the history are on
  void check_freed(Block* block) noexcept;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hp
