// Two devices, custom_cpu:0 and custom_cpu:1, both backed by the host CPU.
#include "callbacks.h"

namespace custom_cpu {
namespace {

constexpr int kDevices = 2;

// The current device is per thread, as in CUDA.
thread_local int current = 0;

}  // namespace

C_Status get_device_count(size_t* count) {
  *count = kDevices;
  return C_SUCCESS;
}

// Paddle passes an array of get_device_count elements.
C_Status get_device_list(size_t* devices) {
  for (int i = 0; i < kDevices; ++i) devices[i] = i;
  return C_SUCCESS;
}

C_Status set_device(const C_Device device) {
  if (device->id < 0 || device->id >= kDevices) return C_ERROR;
  current = device->id;
  return C_SUCCESS;
}

C_Status get_device(const C_Device device) {
  device->id = current;
  return C_SUCCESS;
}

}  // namespace custom_cpu
