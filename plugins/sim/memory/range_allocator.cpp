#include "memory/range_allocator.h"

#include <algorithm>
#include <iterator>

namespace sim {

void RangeAllocator::open(size_t size, size_t page) {
  std::lock_guard<std::mutex> lock(mutex_);
  page_ = page;
  if (size > 0) free_[0] = size;
}

bool RangeAllocator::allocate(size_t bytes, size_t* offset) {
  if (bytes > SIZE_MAX - page_) return false;
  const size_t rounded = (bytes + page_ - 1) / page_ * page_;
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [start, length] = *range;
    if (length < rounded) continue;
    live_.emplace(start, rounded);
    free_.erase(range);
    if (length > rounded) free_.emplace(start + rounded, length - rounded);
    used_ += rounded;
    *offset = start;
    return true;
  }
  return false;
}

bool RangeAllocator::release(size_t offset, size_t* bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto range = live_.find(offset);
  if (range == live_.end()) return false;
  *bytes = range->second;
  live_.erase(range);
  return true;
}

void RangeAllocator::recycle(size_t offset, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  used_ -= bytes;
  auto range = free_.emplace(offset, bytes).first;
  const auto next = std::next(range);
  if (next != free_.end() && next->first == offset + bytes) {
    range->second += next->second;
    free_.erase(next);
  }
  if (range != free_.begin()) {
    const auto previous = std::prev(range);
    if (previous->first + previous->second == offset) {
      previous->second += range->second;
      free_.erase(range);
    }
  }
}

bool RangeAllocator::is_live(size_t offset, size_t bytes, bool starts) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto range = live_.upper_bound(offset);
  if (range == live_.begin()) return false;
  --range;
  const size_t skipped = offset - range->first;
  return (!starts || skipped == 0) && skipped <= range->second && bytes <= range->second - skipped;
}

size_t RangeAllocator::used() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return used_;
}

size_t RangeAllocator::largest_free() const {
  std::lock_guard<std::mutex> lock(mutex_);
  size_t largest = 0;
  for (const auto& range : free_) largest = std::max(largest, range.second);
  return largest;
}

}  // namespace sim
