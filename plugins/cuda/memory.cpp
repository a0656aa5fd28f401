#include "memory.h"

#include "device.h"

namespace nv {
namespace {

CUdeviceptr address(const void* ptr) { return reinterpret_cast<CUdeviceptr>(ptr); }
CUstream stream_of(HpStream stream) { return reinterpret_cast<CUstream>(stream); }

}  // namespace

HpStatus allocate(int device, size_t bytes, void** ptr) {
  if (HpStatus status = make_current(device)) return status;
  CUdeviceptr made = 0;
  NV_CHECK(device, driver.allocate(&made, bytes), "allocating memory");
  *ptr = reinterpret_cast<void*>(made);
  return HP_OK;
}

HpStatus release(int device, void* ptr) {
  if (HpStatus status = make_current(device)) return status;
  NV_CHECK(device, driver.free(address(ptr)), "freeing memory");
  return HP_OK;
}

HpStatus copy_to_device(int device, void* dst, const void* src, size_t bytes, HpStream stream) {
  if (HpStatus status = make_current(device)) return status;
  NV_CHECK(device, driver.copy_to_device(address(dst), src, bytes, stream_of(stream)), "copy to the device");
  return HP_OK;
}

HpStatus copy_to_host(int device, void* dst, const void* src, size_t bytes, HpStream stream) {
  if (HpStatus status = make_current(device)) return status;
  NV_CHECK(device, driver.copy_to_host(dst, address(src), bytes, stream_of(stream)), "copy to the host");
  return HP_OK;
}

HpStatus copy_on_device(int device, void* dst, const void* src, size_t bytes, HpStream stream) {
  if (HpStatus status = make_current(device)) return status;
  NV_CHECK(device, driver.copy_on_device(address(dst), address(src), bytes, stream_of(stream)), "copy on the device");
  return HP_OK;
}

HpStatus fill_memory(int device, void* dst, uint8_t value, size_t bytes, HpStream stream) {
  if (HpStatus status = make_current(device)) return status;
  NV_CHECK(device, driver.fill_bytes(address(dst), value, bytes, stream_of(stream)), "filling memory");
  return HP_OK;
}

HpStatus copy_to_peer(int dst_device, void* dst, int src_device, const void* src, size_t bytes, HpStream stream) {
  if (HpStatus status = make_current(dst_device)) return status;  // creates its context if needed
  if (HpStatus status = make_current(src_device)) return status;
  NV_CHECK(src_device,
           driver.copy_peer(address(dst), context_of(dst_device), address(src), context_of(src_device), bytes,
                            stream_of(stream)),
           "copy to another device");
  return HP_OK;
}

HpStatus allocate_pinned(size_t bytes, void** ptr) {
  if (HpStatus status = make_current(0)) return status;
  NV_CHECK(0, driver.host_allocate(ptr, bytes, CU_MEMHOSTALLOC_PORTABLE), "allocating page-locked memory");
  return HP_OK;
}

HpStatus release_pinned(void* ptr) {
  if (HpStatus status = make_current(0)) return status;
  NV_CHECK(0, driver.host_free(ptr), "freeing page-locked memory");
  return HP_OK;
}

}  // namespace nv
