// Sizes and bookkeeping of the caching allocator: segments, the blocks they are split into, and the free blocks. Calls
// no plug-in and takes no lock: the allocator calls it with its lock held.
//
// A freed block of up to 64 KiB goes unmerged into a bin of its exact size, where the next request of that size finds
// it without a search. Bins are merged into the ordered sets when a request for the small pool finds no block, when
// another block would take them past kMaxBinnedBytes, and before segments are returned to the plug-in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "core/memory/allocator.h"
#include "core/memory/allocator_stats.h"
#include "core/memory/stream_uses.h"
#include "core/runtime/runtime.h"

namespace hp {

constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr size_t kMinBlock = 512;  // block sizes are multiples of this
// Requests up to this size come from the small pool, others from the large pool. A block of the large pool is split if
// more than this remains.
constexpr size_t kSmallRequest = kMiB;
constexpr size_t kSmallSegment = 2 * kMiB;
// Requests of the large pool below kOwnSegment share segments of kLargeSegment bytes. Others get their own segment,
// whose size is rounded up to a multiple of kSegmentRounding.
constexpr size_t kOwnSegment = 10 * kMiB;
constexpr size_t kLargeSegment = 20 * kMiB;
constexpr size_t kSegmentRounding = 2 * kMiB;
constexpr size_t kMaxBinned = 64 * kKiB;
constexpr size_t kNumBins = kMaxBinned / kMinBlock;
constexpr size_t kMaxBinnedBytes = 16 * kMiB;  // per stream

constexpr size_t round_up(size_t bytes, size_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

struct Segment;

enum class BlockState : uint8_t {
  kFree,       // in a free set of its pool
  kBinned,     // in a bin of its pool
  kAllocated,  // owned by the user
  kPending,    // freed, but still used on another stream
  kUnused,     // a recycled object without memory
};

struct Block {
  char* address;
  size_t size;
  size_t requested;
  uint64_t number;  // of its last allocation
  Segment* segment;
  Block* prev;  // neighbors in the segment, by address
  Block* next;
  Block* link;  // next in the bin or in the list of unused objects
  std::shared_ptr<StreamUses> uses;
  BlockState state = BlockState::kUnused;
  bool guarded = false;  // the user's memory starts after a guard zone (guard_zones.h)

  bool is_split() const { return prev != nullptr || next != nullptr; }
};

struct BySizeThenAddress {
  using is_transparent = void;
  bool operator()(const Block* a, const Block* b) const {
    return a->size != b->size ? a->size < b->size : a->address < b->address;
  }
  bool operator()(const Block* a, size_t size) const { return a->size < size; }
};

// The free memory of one stream. Memory never moves between the pools of two streams.
struct StreamPool {
  Stream* stream;
  std::array<Block*, kNumBins> bins{};
  size_t binned_bytes = 0;
  std::array<std::set<Block*, BySizeThenAddress>, kNumStatKinds> free;  // kSmallPool and kLargePool
  bool is_private = false;  // of a MemoryPool: serves its stream only during captures
  bool retained = false;    // its MemoryPool is alive: segments are not returned to the plug-in
};

// One allocation from the plug-in.
struct Segment {
  char* base;
  size_t size;
  StreamPool* pool;
  StatKind kind;  // kSmallPool or kLargePool
  Block* first;
};

class BlockHeap {
 public:
  StatCounters stats;

  StreamPool& pool(Stream& stream);
  // A private pool of the stream for a new MemoryPool.
  StreamPool& private_pool(Stream& stream);
  // Replaces the pool that serves the stream and returns the previous one, which may be null.
  StreamPool* exchange_pool(const Stream& stream, StreamPool* pool);

  // The fast paths. Bin b holds blocks of (b + 1) * kMinBlock bytes.
  Block* take_binned(const Stream& stream, size_t bin, size_t requested);
  Block* take_binned(StreamPool& pool, size_t bin, size_t requested);
  // Returns false if the block cannot go into a bin.
  bool free_to_bin(Block* block);

  // Returns a block of `size` bytes from a bin, or split off the best fit; null if there is none.
  Block* take(StreamPool& pool, size_t size, size_t requested);
  void merge_bins(StreamPool& pool);

  // The two steps of freeing: end_allocation when the user frees, make_available when no stream uses the memory.
  void end_allocation(Block* block) { end_allocation(block, block->segment->kind); }
  void make_available(Block* block);

  static size_t segment_size(size_t block_size);
  // True if [base, base + size) overlaps a known segment.
  bool overlaps(const char* base, size_t size) const;
  // Adds the segment as one free block, to be passed to split_off.
  Block* add_segment(StreamPool& pool, char* base, size_t size, StatKind kind);
  Block* split_off(Block* free_block, size_t size, size_t requested);
  // Removes and returns the segments with no block in use. Their `first` is invalid.
  std::vector<Segment> remove_unused_segments();

  Block* find(const char* address) const;
  template <class Function>
  void for_each_block(const Function& function) const {
    for (const auto& entry : segments_) {
      for (const Block* block = entry.second.first; block != nullptr; block = block->next) function(block);
    }
  }
  size_t largest_free_block() const;
  std::vector<SegmentInfo> snapshot() const;
  void merge_all_bins();

 private:
  using FreeSet = std::set<Block*, BySizeThenAddress>;

  Block* new_block(char* address, size_t size, Segment* segment);
  void recycle(Block* block);
  void count_allocation(Block* block, StatKind kind, size_t requested);
  void end_allocation(Block* block, StatKind kind);
  void end_activity(Block* block, StatKind kind);
  void put_into_bin(Block* block, StreamPool& pool);
  void insert_merged(Block* block, bool was_counted);

  std::array<StreamPool*, Device::kMaxStreams> by_stream_{};
  std::deque<StreamPool> pools_;
  std::map<const char*, Segment> segments_;
  // Block objects are recycled, never destroyed, so that a double free can be detected.
  std::deque<Block> blocks_;
  Block* unused_ = nullptr;
  uint64_t allocations_ = 0;  // total ever
};

inline void BlockHeap::count_allocation(Block* block, StatKind kind, size_t requested) {
  const auto size = static_cast<int64_t>(block->size);
  block->state = BlockState::kAllocated;
  block->requested = requested;
  block->number = ++allocations_;
  stats.increase(kAllocation, kind, 1);
  stats.increase(kAllocatedBytes, kind, size);
  stats.increase(kActive, kind, 1);
  stats.increase(kActiveBytes, kind, size);
  stats.increase(kRequestedBytes, kind, static_cast<int64_t>(requested));
}

// A binned block is always part of a split segment: segments are larger than kMaxBinned.
inline Block* BlockHeap::take_binned(const Stream& stream, size_t bin, size_t requested) {
  StreamPool* pool = by_stream_[stream.id];
  return pool != nullptr ? take_binned(*pool, bin, requested) : nullptr;
}

inline Block* BlockHeap::take_binned(StreamPool& pool, size_t bin, size_t requested) {
  Block* block = pool.bins[bin];
  if (block == nullptr) return nullptr;
  pool.bins[bin] = block->link;
  pool.binned_bytes -= block->size;
  stats.decrease(kInactiveSplit, kSmallPool, 1);
  stats.decrease(kInactiveSplitBytes, kSmallPool, static_cast<int64_t>(block->size));
  count_allocation(block, kSmallPool, requested);
  return block;
}

inline void BlockHeap::put_into_bin(Block* block, StreamPool& pool) {
  Block*& bin = pool.bins[block->size / kMinBlock - 1];
  block->state = BlockState::kBinned;
  block->link = bin;
  bin = block;
  pool.binned_bytes += block->size;
  stats.increase(kInactiveSplit, kSmallPool, 1);
  stats.increase(kInactiveSplitBytes, kSmallPool, static_cast<int64_t>(block->size));
}

inline bool BlockHeap::free_to_bin(Block* block) {
  if (block->size > kMaxBinned || block->state != BlockState::kAllocated || block->uses) return false;
  StreamPool& pool = *block->segment->pool;
  if (pool.binned_bytes + block->size > kMaxBinnedBytes) return false;
  end_allocation(block, kSmallPool);
  end_activity(block, kSmallPool);
  put_into_bin(block, pool);
  return true;
}

inline void BlockHeap::end_allocation(Block* block, StatKind kind) {
  block->state = BlockState::kPending;
  stats.decrease(kAllocation, kind, 1);
  stats.decrease(kAllocatedBytes, kind, static_cast<int64_t>(block->size));
}

inline void BlockHeap::end_activity(Block* block, StatKind kind) {
  stats.decrease(kActive, kind, 1);
  stats.decrease(kActiveBytes, kind, static_cast<int64_t>(block->size));
  stats.decrease(kRequestedBytes, kind, static_cast<int64_t>(block->requested));
}

}  // namespace hp
