// Devices and their primary contexts, which CUDA's libraries share.
#pragma once

#include "driver.h"

namespace nv {

constexpr int kMaxDevices = 64;

HpStatus count_devices();  // call once, after open_driver
int device_count();

// Makes the device's context current on this thread. Other CUDA users in the process may change the current context at
// any time, so it is queried on every call; the driver reads it from thread-local storage.
HpStatus make_current(int device);
CUcontext context_of(int device);  // call make_current first, on any thread

// The compute capability, 90 for 9.0; 0 for an invalid device.
int capability(int device);

HpStatus properties(int device, HpProperties* properties);
HpStatus can_access(int dst_device, int src_device, int* yes);
HpStatus memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes);

}  // namespace nv
