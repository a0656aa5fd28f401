// OpenCL devices, selected by HARDPOINT_OPENCL_DEVICE.
#pragma once

#include <atomic>
#include <string>

#include "cl.h"

namespace ocl {

constexpr int kMaxDevices = 64;

// Tensors need memory with plain addresses: Intel's unified shared memory if the driver has it, else OpenCL's shared
// virtual memory, through `cl`.
struct UnifiedMemory {
  void* (*allocate)(cl_context, cl_device_id, const cl_bitfield*, size_t, cl_uint, cl_int*) = nullptr;
  cl_int (*free)(cl_context, void*) = nullptr;
  cl_int (*copy)(cl_command_queue, cl_uint, void*, const void*, size_t, cl_uint, const cl_event*, cl_event*) = nullptr;
  cl_int (*set_pointer)(cl_kernel, cl_uint, const void*) = nullptr;
  explicit operator bool() const { return allocate && free && copy && set_pointer; }
};

struct Device {
  cl_platform_id platform = nullptr;
  cl_device_id id = nullptr;
  cl_context context = nullptr;  // one per platform: its devices share memory and events
  UnifiedMemory unified;
  std::string name;         // "PoCL: pthread-..."
  std::string fingerprint;  // identifies the compiler and device
  std::string options;      // compiler options
  bool is_cpu = false;
  uint64_t total_memory = 0;
  std::atomic<uint64_t> used_memory{0};
};

// Call once, after open_library.
HpStatus find_devices();
int device_count();
bool share_one_context();  // whether all devices do

// HP_OK and the device, or host->fail.
HpStatus find_device(int device, Device** found);

// Work-items per group, and bytes of local memory, that suit the device.
uint32_t group_size(const Device& device);
uint32_t local_memory(const Device& device);

HpStatus properties(int device, HpProperties* properties);
HpStatus memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes);

}  // namespace ocl
