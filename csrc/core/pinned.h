// Caching allocator for page-locked host memory. A block that an asynchronous copy reads or writes is reused only after
// the copy is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hp {

class Runtime;
class Stream;

struct PinnedStats {
  int64_t allocations = 0, active_blocks = 0, active_bytes = 0, reserved_bytes = 0, peak_active_bytes = 0;
};

class PinnedAllocator {
 public:
  explicit PinnedAllocator(Runtime& runtime);
  ~PinnedAllocator();

  // True where the plug-in locks pages. Without, allocate gives plain memory, which counts as pinned all the same: it
  // is what this device has for copies, and callers such as DDP insist that what they asked to be pinned is.
  bool supported() const;
  void* allocate(size_t bytes);
  void free(void* ptr) noexcept;
  // False when `ptr` is not inside one of our blocks.
  bool record_stream(const void* ptr, Stream& stream);
  // Whether `ptr` is inside one of our blocks.
  bool is_pinned(const void* ptr) const;
  void empty_cache();
  PinnedStats stats() const;
  void reset_peak_stats();
  void reset_accumulated_stats();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hp
