// First-fit allocation of page ranges inside a window of address space. Knows offsets only, touches no memory.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace sim {

class Ranges {
 public:
  // `size` is a multiple of `page`. Called once, before any other.
  void open(size_t size, size_t page);

  // Rounds `bytes` up to whole pages. False when no free range is long enough.
  bool allocate(size_t bytes, size_t* offset);
  // `offset` must be the start of a live range, otherwise false. `bytes` is set to the range's length. The range can be
  // handed out again only after `recycle`, so that the caller can give its pages back in between.
  bool release(size_t offset, size_t* bytes);
  void recycle(size_t offset, size_t bytes);

  // Whether [offset, offset + bytes) lies inside one live range; `starts` demands that it starts there.
  bool is_live(size_t offset, size_t bytes, bool starts) const;

  size_t used() const;
  size_t largest_free() const;

 private:
  mutable std::mutex mutex_;
  std::map<size_t, size_t> free_;  // offset -> bytes; neighbours are always merged
  std::map<size_t, size_t> live_;
  size_t used_ = 0;
  size_t page_ = 1;
};

}  // namespace sim
