// Devices and their contexts. Each device's primary context is used, which CUDA's own libraries share.
#pragma once

#include "driver.h"

namespace nv {

constexpr int kMaxDevices = 64;

HpStatus count_devices();  // once, after open_driver
int device_count();

// Makes the device's context current on this thread, unless it is. Other users of CUDA in this process may change it
// between two of our calls, so the driver is asked; it answers from thread-local memory.
HpStatus enter(int device);
CUcontext context_of(int device);  // after enter, on any thread

// The compute capability: 90 for 9.0. 0 for no such device.
int capability(int device);

HpStatus properties(int device, HpProperties* properties);
HpStatus memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes);

}  // namespace nv
