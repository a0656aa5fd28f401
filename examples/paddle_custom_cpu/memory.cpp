// Device memory: host memory with a limit, so that programs can run out of it.
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "callbacks.h"

namespace custom_cpu {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kTotal = size_t{2} << 30;  // per device
std::atomic<size_t> used[2];

}  // namespace

// Called rarely: Paddle allocates large chunks and divides them among tensors.
C_Status allocate(const C_Device device, void** ptr, size_t size) {
  std::atomic<size_t>& in_use = used[device->id];
  if (size > kTotal || in_use.fetch_add(size) + size > kTotal) {
    if (size <= kTotal) in_use -= size;
    return C_FAILED;
  }
  *ptr = std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
  if (*ptr != nullptr) return C_SUCCESS;
  in_use -= size;
  return C_FAILED;
}

C_Status deallocate(const C_Device device, void* ptr, size_t size) {
  if (ptr == nullptr) return C_ERROR;
  std::free(ptr);
  used[device->id] -= size;
  return C_SUCCESS;
}

C_Status copy(const C_Device, void* dst, const void* src, size_t size) {
  std::memcpy(dst, src, size);
  return C_SUCCESS;
}

C_Status copy_between(const C_Device, const C_Device, void* dst, const void* src, size_t size) {
  std::memcpy(dst, src, size);
  return C_SUCCESS;
}

C_Status memory_stats(const C_Device device, size_t* total, size_t* free) {
  *total = kTotal;
  *free = kTotal - used[device->id];
  return C_SUCCESS;
}

// Paddle rounds sizes up to a multiple of this, which is also the alignment of tensors.
C_Status min_chunk_size(const C_Device, size_t* size) {
  *size = kAlignment;
  return C_SUCCESS;
}

}  // namespace custom_cpu
