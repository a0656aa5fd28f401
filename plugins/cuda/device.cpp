#include "device.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "compiler.h"
#include "host.h"

namespace nv {
namespace {

struct Device {
  CUdevice handle = 0;
  int capability = 0;
  std::atomic<CUcontext> context{nullptr};  // created on first use
  std::mutex making;
};

Device devices[kMaxDevices];
int count = 0;

HpStatus make_context(int device) {
  Device& d = devices[device];
  std::lock_guard<std::mutex> lock(d.making);
  if (d.context.load(std::memory_order_relaxed)) return HP_OK;
  CUcontext context = nullptr;
  NV_CHECK(device, driver.primary_context_retain(&context, d.handle), "creating a context");
  d.context.store(context, std::memory_order_release);
  return HP_OK;
}

// 0 if the driver does not know the attribute.
uint32_t attribute(int which, CUdevice handle) {
  int value = 0;
  return driver.device_get_attribute(&value, which, handle) == CUDA_SUCCESS ? static_cast<uint32_t>(value) : 0;
}

void describe_hardware(CUdevice handle, int version, HpProperties* to) {
  CUuuid uuid;
  if (driver.device_get_uuid(&uuid, handle) == CUDA_SUCCESS) memcpy(to->uuid, uuid.bytes, sizeof to->uuid);
  if (driver.device_get_pci_id(to->pci_id, sizeof to->pci_id, handle) != CUDA_SUCCESS) to->pci_id[0] = '\0';
  to->max_allocation = to->total_memory;
  to->native_elements = 1u << HP_UINT8 | 1u << HP_INT8 | 1u << HP_INT16 | 1u << HP_INT32 | 1u << HP_INT64 |
                        1u << HP_FLOAT32 | 1u << HP_FLOAT64;
  if (version >= 53) to->native_elements |= 1u << HP_FLOAT16;
  if (version >= 80) to->native_elements |= 1u << HP_BFLOAT16;
  to->cache_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, handle);
  to->clock_khz = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, handle);
  to->memory_clock_khz = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, handle);
  to->memory_bus_bits = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, handle);
  to->simd_width = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE, handle);
  to->group_size = kGroupSize;
  to->max_group_size = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, handle);
  to->local_memory = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, handle);
  to->max_local_memory = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, handle);
  to->unit_registers = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, handle);
}

}  // namespace

HpStatus count_devices() {
  int found = 0;
  NV_CHECK(0, driver.device_get_count(&found), "counting devices");
  count = std::min(found, kMaxDevices);
  for (int i = 0; i < count; ++i) {
    Device& d = devices[i];
    int major = 0, minor = 0;
    NV_CHECK(i, driver.device_get(&d.handle, i), "finding the device");
    NV_CHECK(i, driver.device_get_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d.handle),
             "reading the compute capability");
    NV_CHECK(i, driver.device_get_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d.handle),
             "reading the compute capability");
    d.capability = major * 10 + minor;
  }
  return HP_OK;
}

int device_count() { return count; }

HpStatus make_current(int device) {
  if (device < 0 || device >= count)
    return host->fail(HP_INVALID_ARGUMENT, "nv:%d does not exist: there are %d devices", device, count);
  Device& d = devices[device];
  CUcontext wanted = d.context.load(std::memory_order_acquire), current = nullptr;
  if (__builtin_expect(!wanted, 0)) {
    if (HpStatus status = make_context(device)) return status;
    wanted = d.context.load(std::memory_order_acquire);
  }
  NV_CHECK(device, driver.context_get(&current), "reading the current context");
  if (current != wanted) NV_CHECK(device, driver.context_set(wanted), "changing the current context");
  return HP_OK;
}

CUcontext context_of(int device) { return devices[device].context.load(std::memory_order_acquire); }

int capability(int device) { return device >= 0 && device < count ? devices[device].capability : 0; }

HpStatus properties(int device, HpProperties* properties) {
  if (HpStatus status = make_current(device)) return status;
  const CUdevice handle = devices[device].handle;
  HpProperties filled = {};
  size_t memory = 0;
  int units = 0;
  NV_CHECK(device, driver.device_get_name(filled.name, sizeof filled.name, handle), "reading the device name");
  NV_CHECK(device, driver.device_total_memory(&memory, handle), "reading the memory size");
  NV_CHECK(device, driver.device_get_attribute(&units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, handle),
           "reading the device properties");
  filled.total_memory = memory;
  filled.compute_units = units;
  filled.version_major = capability(device) / 10;
  filled.version_minor = capability(device) % 10;
  describe_hardware(handle, capability(device), &filled);
  filled.struct_size = properties->struct_size;
  memcpy(properties, &filled, std::min(filled.struct_size, sizeof filled));
  return HP_OK;
}

HpStatus can_access(int dst_device, int src_device, int* yes) {
  for (const int device : {dst_device, src_device})
    if (device < 0 || device >= count)
      return host->fail(HP_INVALID_ARGUMENT, "nv:%d does not exist: there are %d devices", device, count);
  NV_CHECK(src_device, driver.can_access_peer(yes, devices[src_device].handle, devices[dst_device].handle),
           "reading the links between devices");
  return HP_OK;
}

HpStatus memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes) {
  if (HpStatus status = make_current(device)) return status;
  size_t free = 0, total = 0;
  NV_CHECK(device, driver.memory_info(&free, &total), "reading the memory size");
  *free_bytes = free;
  *total_bytes = total;
  return HP_OK;
}

}  // namespace nv
