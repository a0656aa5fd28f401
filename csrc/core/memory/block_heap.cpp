#include "core/memory/block_heap.h"

#include <utility>

namespace hp {

StreamPool& BlockHeap::pool(Stream& stream) {
  StreamPool*& pool = by_stream_[stream.id];
  if (pool == nullptr) {
    pools_.emplace_back();
    pool = &pools_.back();
    pool->stream = &stream;
  }
  return *pool;
}

StreamPool& BlockHeap::private_pool(Stream& stream) {
  for (StreamPool& pool : pools_) {
    if (pool.is_private && !pool.retained && pool.stream == &stream) return pool;
  }
  pools_.emplace_back();
  StreamPool& pool = pools_.back();
  pool.stream = &stream;
  pool.is_private = true;
  return pool;
}

StreamPool* BlockHeap::exchange_pool(const Stream& stream, StreamPool* pool) {
  return std::exchange(by_stream_[stream.id], pool);
}

Block* BlockHeap::new_block(char* address, size_t size, Segment* segment) {
  Block* block = unused_;
  if (block != nullptr) {
    unused_ = block->link;
  } else {
    block = &blocks_.emplace_back();
  }
  block->address = address;
  block->size = size;
  block->requested = 0;
  block->number = 0;
  block->segment = segment;
  block->prev = block->next = block->link = nullptr;
  return block;
}

void BlockHeap::recycle(Block* block) {
  block->state = BlockState::kUnused;
  block->link = unused_;
  unused_ = block;
}

Block* BlockHeap::take(StreamPool& pool, size_t size, size_t requested) {
  if (size <= kMaxBinned) {
    if (Block* block = take_binned(pool, size / kMinBlock - 1, requested)) return block;
  }
  FreeSet& free = pool.free[size <= kSmallRequest ? kSmallPool : kLargePool];
  auto found = free.lower_bound(size);
  return found != free.end() ? split_off(*found, size, requested) : nullptr;
}

Block* BlockHeap::split_off(Block* block, size_t size, size_t requested) {
  const StatKind kind = block->segment->kind;
  FreeSet& free = block->segment->pool->free[kind];
  auto node = free.extract(block);
  const size_t rest = block->size - size;
  const bool was_split = block->is_split();
  if (kind == kSmallPool ? rest >= kMinBlock : rest > kSmallRequest) {
    Block* remainder = new_block(block->address + size, rest, block->segment);
    remainder->state = BlockState::kFree;
    remainder->prev = block;
    remainder->next = block->next;
    if (block->next != nullptr) block->next->prev = remainder;
    block->next = remainder;
    block->size = size;
    node.value() = remainder;
    free.insert(std::move(node));
    if (was_split) {
      stats.decrease(kInactiveSplitBytes, kind, static_cast<int64_t>(size));
    } else {
      stats.increase(kInactiveSplit, kind, 1);
      stats.increase(kInactiveSplitBytes, kind, static_cast<int64_t>(rest));
    }
  } else if (was_split) {
    stats.decrease(kInactiveSplit, kind, 1);
    stats.decrease(kInactiveSplitBytes, kind, static_cast<int64_t>(block->size));
  }
  count_allocation(block, kind, requested);
  return block;
}

// Merges a block with its free neighbors into its free set. `was_counted`: inactive_split already counts the block.
void BlockHeap::insert_merged(Block* block, bool was_counted) {
  const StatKind kind = block->segment->kind;
  FreeSet& free = block->segment->pool->free[kind];
  int64_t blocks = was_counted ? -1 : 0;
  int64_t bytes = was_counted ? -static_cast<int64_t>(block->size) : 0;
  FreeSet::node_type node;  // a neighbor's set node is reused, which saves an allocation
  if (Block* prev = block->prev; prev != nullptr && prev->state == BlockState::kFree) {
    node = free.extract(prev);
    blocks -= 1;
    bytes -= static_cast<int64_t>(prev->size);
    block->address = prev->address;
    block->size += prev->size;
    block->prev = prev->prev;
    if (block->prev != nullptr) {
      block->prev->next = block;
    } else {
      block->segment->first = block;
    }
    recycle(prev);
  }
  if (Block* next = block->next; next != nullptr && next->state == BlockState::kFree) {
    node = free.extract(next);
    blocks -= 1;
    bytes -= static_cast<int64_t>(next->size);
    block->size += next->size;
    block->next = next->next;
    if (block->next != nullptr) block->next->prev = block;
    recycle(next);
  }
  block->state = BlockState::kFree;
  if (node.empty()) {
    free.insert(block);
  } else {
    node.value() = block;
    free.insert(std::move(node));
  }
  if (block->is_split()) {
    blocks += 1;
    bytes += static_cast<int64_t>(block->size);
  }
  stats.change(kInactiveSplit, kind, blocks);
  stats.change(kInactiveSplitBytes, kind, bytes);
}

void BlockHeap::make_available(Block* block) {
  end_activity(block, block->segment->kind);
  if (block->size > kMaxBinned) {
    insert_merged(block, false);
    return;
  }
  StreamPool& pool = *block->segment->pool;
  if (pool.binned_bytes + block->size > kMaxBinnedBytes) merge_bins(pool);
  put_into_bin(block, pool);
}

void BlockHeap::merge_bins(StreamPool& pool) {
  if (pool.binned_bytes == 0) return;
  for (Block*& bin : pool.bins) {
    while (bin != nullptr) {
      Block* block = bin;
      bin = block->link;
      pool.binned_bytes -= block->size;
      insert_merged(block, true);
    }
  }
}

void BlockHeap::merge_all_bins() {
  for (StreamPool& pool : pools_) merge_bins(pool);
}

size_t BlockHeap::segment_size(size_t block_size) {
  if (block_size <= kSmallRequest) return kSmallSegment;
  if (block_size < kOwnSegment) return kLargeSegment;
  return round_up(block_size, kSegmentRounding);
}

bool BlockHeap::overlaps(const char* base, size_t size) const {
  auto after = segments_.lower_bound(base + size);
  if (after == segments_.begin()) return false;
  const Segment& before = std::prev(after)->second;
  return before.base + before.size > base;
}

Block* BlockHeap::add_segment(StreamPool& pool, char* base, size_t size, StatKind kind) {
  Segment& segment = segments_[base];
  segment = {base, size, &pool, kind, nullptr};
  Block* block = segment.first = new_block(base, size, &segment);
  block->state = BlockState::kFree;
  pool.free[kind].insert(block);
  stats.increase(kSegment, kind, 1);
  stats.increase(kReservedBytes, kind, static_cast<int64_t>(size));
  return block;
}

std::vector<Segment> BlockHeap::remove_unused_segments() {
  merge_all_bins();
  std::vector<Segment> unused;
  for (auto it = segments_.begin(); it != segments_.end();) {
    const Segment& segment = it->second;
    Block* first = segment.first;
    if (first->state != BlockState::kFree || first->is_split() || segment.pool->retained) {
      ++it;
      continue;
    }
    unused.push_back(segment);
    segment.pool->free[segment.kind].erase(first);
    stats.decrease(kSegment, segment.kind, 1);
    stats.decrease(kReservedBytes, segment.kind, static_cast<int64_t>(segment.size));
    recycle(first);
    it = segments_.erase(it);
  }
  return unused;
}

Block* BlockHeap::find(const char* address) const {
  auto after = segments_.upper_bound(address);
  if (after == segments_.begin()) return nullptr;
  for (Block* block = std::prev(after)->second.first; block != nullptr; block = block->next) {
    if (address >= block->address && address < block->address + block->size) {
      return block->state == BlockState::kAllocated ? block : nullptr;
    }
  }
  return nullptr;
}

size_t BlockHeap::largest_free_block() const {
  size_t largest = 0;
  for (const StreamPool& pool : pools_) {
    for (const FreeSet& free : pool.free) {
      if (!free.empty()) largest = std::max(largest, (*free.rbegin())->size);
    }
    for (const Block* bin : pool.bins) {
      if (bin != nullptr) largest = std::max(largest, bin->size);
    }
  }
  return largest;
}

std::vector<SegmentInfo> BlockHeap::snapshot() const {
  std::vector<SegmentInfo> infos;
  infos.reserve(segments_.size());
  for (const auto& entry : segments_) {
    const Segment& segment = entry.second;
    SegmentInfo info{reinterpret_cast<uint64_t>(segment.base),
                     segment.size,
                     segment.pool->stream->id,
                     segment.kind == kLargePool,
                     {}};
    for (const Block* block = segment.first; block != nullptr; block = block->next) {
      const bool allocated = block->state == BlockState::kAllocated;
      const bool active = allocated || block->state == BlockState::kPending;
      info.blocks.push_back({reinterpret_cast<uint64_t>(block->address), block->size, active ? block->requested : 0,
                             allocated, active, block->number});
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

}  // namespace hp
