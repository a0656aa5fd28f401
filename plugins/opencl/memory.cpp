#include "memory.h"

#include <mutex>
#include <unordered_map>

#include "device.h"
#include "host.h"
#include "stream.h"

namespace ocl {
namespace {

constexpr cl_uint kAlignment = 128;  // size of OpenCL's largest vector type
static_assert(kAlignment % HP_ALIGNMENT == 0);

// Allocation sizes, which OpenCL does not report, to track the memory in use. Never destroyed: memory may be freed at
// exit.
struct AllocationSizes {
  std::mutex mutex;
  std::unordered_map<void*, size_t> bytes;
};
AllocationSizes& allocation_sizes() {
  static auto* const table = new AllocationSizes;
  return *table;
}

}  // namespace

HpStatus allocate(int device, size_t bytes, void** ptr) try {
  Device* d = nullptr;
  if (HpStatus status = find_device(device, &d)) return status;
  if (d->unified) {
    cl_int result = CL_SUCCESS;
    *ptr = d->unified.allocate(d->context, d->id, nullptr, bytes, kAlignment, &result);
  } else {
    *ptr = cl.svm_allocate(d->context, CL_MEM_READ_WRITE, bytes, kAlignment);
  }
  if (!*ptr)
    return host->fail(HP_OUT_OF_MEMORY, "ocl:%d is out of memory: %zu bytes requested (%s)", device, bytes,
                      d->name.c_str());
  d->used_memory += bytes;
  std::lock_guard<std::mutex> lock(allocation_sizes().mutex);
  allocation_sizes().bytes[*ptr] = bytes;
  return HP_OK;
} catch (const std::exception& error) {
  return host->fail(HP_ERROR, "ocl:%d: allocating memory: %s", device, error.what());
}

HpStatus release(int device, void* ptr) {
  Device* d = nullptr;
  if (HpStatus status = find_device(device, &d)) return status;
  {
    std::lock_guard<std::mutex> lock(allocation_sizes().mutex);
    const auto found = allocation_sizes().bytes.find(ptr);
    if (found == allocation_sizes().bytes.end())
      return host->fail(HP_INVALID_ARGUMENT, "ocl:%d: free of %p, which is not a live allocation", device, ptr);
    d->used_memory -= found->second;
    allocation_sizes().bytes.erase(found);
  }
  if (d->unified) {
    OCL_CHECK(device, d->unified.free(d->context, ptr), "freeing memory");
  } else {
    cl.svm_free(d->context, ptr);
  }
  return HP_OK;
}

HpStatus copy(int device, void* dst, const void* src, size_t bytes, HpStream stream) {
  Device* d = nullptr;
  if (HpStatus status = find_device(device, &d)) return status;
  if (bytes == 0) return HP_OK;
  return enqueue(device, stream, "a copy", [&](cl_command_queue queue, cl_event* done) {
    return (d->unified ? d->unified.copy : cl.svm_copy)(queue, 0, dst, src, bytes, 0, nullptr, done);
  });
}

HpStatus copy_to_peer(int, void* dst, int src_device, const void* src, size_t bytes, HpStream stream) {
  return copy(src_device, dst, src, bytes, stream);  // offered only if all devices share a context
}

}  // namespace ocl
