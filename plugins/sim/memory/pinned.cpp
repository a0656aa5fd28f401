// Page-locked host memory, allocated from one window so that copies recognize it by its address.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "host.h"
#include "memory/device_memory.h"
#include "memory/range_allocator.h"

namespace sim {

namespace {

constexpr size_t kWindow = size_t{64} << 30;

struct Window {
  std::atomic<uintptr_t> base{0};
  std::mutex mutex;  // guards the reservation
  RangeAllocator ranges;
};

// Never destroyed, like device memory.
Window& window() {
  static Window* const instance = new Window;
  return *instance;
}

HpStatus open(Window& window) {
  std::lock_guard<std::mutex> lock(window.mutex);
  if (window.base != 0) return HP_OK;
  void* const base = mmap(nullptr, kWindow, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return host->fail(HP_ERROR, "sim cannot reserve pinned memory: %s", strerror(errno));
  window.ranges.open(kWindow, static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  window.base = reinterpret_cast<uintptr_t>(base);
  return HP_OK;
}

}  // namespace

HpStatus allocate_pinned(size_t bytes, void** ptr) {
  Window& pinned = window();
  if (HpStatus status = open(pinned)) return status;
  size_t offset;
  if (bytes == 0) return host->fail(HP_INVALID_ARGUMENT, "sim: pinned allocation of 0 bytes");
  if (!pinned.ranges.allocate(bytes, &offset))
    return host->fail(HP_OUT_OF_MEMORY, "sim is out of pinned memory: %zu bytes requested, %zu of %zu in use", bytes,
                      pinned.ranges.used(), kWindow);
  void* const start = reinterpret_cast<void*>(pinned.base + offset);
  if (mprotect(start, bytes, PROT_READ | PROT_WRITE) != 0) {
    const int error = errno;
    size_t length;
    if (pinned.ranges.release(offset, &length)) pinned.ranges.recycle(offset, length);
    return host->fail(HP_OUT_OF_MEMORY, "sim: %zu bytes of pinned memory: %s", bytes, strerror(error));
  }
  *ptr = start;
  return HP_OK;
}

HpStatus release_pinned(void* ptr) {
  Window& pinned = window();
  const size_t offset = reinterpret_cast<uintptr_t>(ptr) - pinned.base;
  size_t bytes;
  if (!pinned.ranges.release(offset, &bytes))
    return host->fail(HP_INVALID_ARGUMENT, "sim: free of %p, which is not pinned memory of sim", ptr);
  // Remapping frees the pages and makes later accesses fault.
  mmap(ptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  pinned.ranges.recycle(offset, bytes);
  return HP_OK;
}

bool is_pinned(const void* ptr) {
  const uintptr_t base = window().base.load(std::memory_order_relaxed);
  return base != 0 && reinterpret_cast<uintptr_t>(ptr) - base < kWindow;
}

}  // namespace sim
