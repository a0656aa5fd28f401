// Caching allocator for page-locked host memory. A block recorded on a stream is reused only after the work queued
// there is done. Thread-safe.
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

  // Whether the plug-in provides pinned memory. If not, allocate returns plain memory that is_pinned still reports as
  // pinned: callers such as DDP insist that memory requested as pinned is pinned.
  bool supported() const;
  void* allocate(size_t bytes);
  void free(void* ptr) noexcept;
  // Returns false if `ptr` is not inside an allocated block.
  bool record_stream(const void* ptr, Stream& stream);
  // Whether `ptr` is inside an allocated block.
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
