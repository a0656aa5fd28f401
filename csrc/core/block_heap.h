// The bookkeeping of the caching allocator: segments, the blocks that they are split into, and which of these are free.
// It calls no plug-in and takes no lock: the allocator calls it with its own lock held.
//
// A freed block of up to 64 KiB goes unmerged to a bin of its exact size, where the next request of that size finds it
// without a search. Bins are merged into the ordered sets when a request finds nothing, when too much lies in them, and
// before segments are given back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "allocator.h"
#include "allocator_stats.h"
#include "runtime.h"
#include "stream_uses.h"

namespace hp {

constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr size_t kMinBlock = 512;              // sizes are multiples of this
constexpr size_t kSmallRequest = kMiB;         // up to here: the small pool,
constexpr size_t kSmallSegment = 2 * kMiB;     // which is made of these
constexpr size_t kLargeRequest = 10 * kMiB;    // below: segments
constexpr size_t kLargeSegment = 20 * kMiB;    // of this size,
constexpr size_t kSegmentRounding = 2 * kMiB;  // from there on: a segment of its own, rounded to this
constexpr size_t kMaxBinned = 64 * kKiB;
constexpr size_t kNumBins = kMaxBinned / kMinBlock;
constexpr size_t kMaxBinnedBytes = 16 * kMiB;  // of one stream

constexpr size_t round_up(size_t bytes, size_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

struct Segment;

enum class BlockState : uint8_t {
  kFree,       // in a set of its pool
  kBinned,     // in a bin of its pool
  kAllocated,  // the user's
  kPending,    // freed, but work on another stream uses it
  kUnused,     // no memory belongs to this object
};

struct Block {
  char* address;
  size_t size;
  size_t requested;
  uint64_t number;  // of its allocation
  Segment* segment;
  Block* prev;  // neighbours by address in the segment
  Block* next;
  Block* link;  // next in the bin, or next unused object
  std::shared_ptr<StreamUses> uses;
  BlockState state = BlockState::kUnused;

  bool is_split() const { return prev != nullptr || next != nullptr; }
};

struct BySizeThenAddress {
  using is_transparent = void;
  bool operator()(const Block* a, const Block* b) const {
    return a->size != b->size ? a->size < b->size : a->address < b->address;
  }
  bool operator()(const Block* a, size_t size) const { return a->size < size; }
};

// What a stream holds. Memory never moves from one stream's pool to another's.
struct StreamPool {
  Stream* stream;
  std::array<Block*, kNumBins> bins{};
  size_t binned_bytes = 0;
  std::array<std::set<Block*, BySizeThenAddress>, kNumStatKinds> free;  // kSmallPool and kLargePool
};

// One allocation of the plug-in.
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

  // The fast paths. Bin b holds blocks of (b + 1) * kMinBlock bytes.
  Block* take_binned(const Stream& stream, size_t bin, size_t requested);
  // False if the block cannot go to a bin as it is.
  bool free_to_bin(Block* block);

  // A block of exactly `size`, from a bin or the best fit; null if there is none.
  Block* take(StreamPool& pool, size_t size, size_t requested);
  void merge_bins(StreamPool& pool);

  // The two halves of freeing: the user's claim ends, then the memory becomes available.
  void end_allocation(Block* block) { end_allocation(block, block->segment->kind); }
  void make_available(Block* block);

  static size_t segment_size(size_t block_size);
  // True if [base, base + size) overlaps memory that the plug-in gave us before.
  bool overlaps(const char* base, size_t size) const;
  // The segment arrives as one free block, which `carve` makes an allocated one of `size`.
  Block* add_segment(StreamPool& pool, char* base, size_t size, StatKind kind);
  Block* carve(Block* free_block, size_t size, size_t requested);
  // Forgets the segments without a block in use and returns them, their `first` being invalid.
  std::vector<Segment> remove_unused_segments();

  Block* find(const char* address) const;
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
  // Block objects are never given back to the system, so that freeing a block twice can be noticed.
  std::deque<Block> blocks_;
  Block* unused_ = nullptr;
  uint64_t allocations_ = 0;  // ever
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

// A binned block is always part of a split segment: a small segment is larger than the largest binned block.
inline Block* BlockHeap::take_binned(const Stream& stream, size_t bin, size_t requested) {
  StreamPool* pool = by_stream_[stream.id];
  if (pool == nullptr) return nullptr;
  Block* block = pool->bins[bin];
  if (block == nullptr) return nullptr;
  pool->bins[bin] = block->link;
  pool->binned_bytes -= block->size;
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
