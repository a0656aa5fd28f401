// First-fit allocator of page ranges within a window of address space. Manages offsets only, never touches memory.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace sim {

class RangeAllocator {
 public:
  // `size` must be a multiple of `page`. Call once, before any other function.
  void open(size_t size, size_t page);

  // Rounds `bytes` up to whole pages. Returns false if no free range is large enough.
  bool allocate(size_t bytes, size_t* offset);
  // Sets `bytes` to the length of the live range at `offset`; returns false if there is none. The range is not reused
  // until `recycle`, so the caller can free its pages first.
  bool release(size_t offset, size_t* bytes);
  void recycle(size_t offset, size_t bytes);

  // Whether [offset, offset + bytes) lies within one live range, and starts with it if `starts`.
  bool is_live(size_t offset, size_t bytes, bool starts) const;

  size_t used() const;
  size_t largest_free() const;

 private:
  mutable std::mutex mutex_;
  std::map<size_t, size_t> free_;  // offset -> bytes; adjacent ranges are merged
  std::map<size_t, size_t> live_;
  size_t used_ = 0;
  size_t page_ = 1;
};

}  // namespace sim
