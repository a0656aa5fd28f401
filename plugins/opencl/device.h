// Which OpenCL devices there are, of which the program gets those that HARDPOINT_OPENCL_DEVICE names.
#pragma once

#include <atomic>
#include <string>

#include "cl.h"

namespace ocl {

constexpr int kMaxDevices = 64;

// Memory that is an address, as tensors want it: Intel's unified shared memory where a driver offers it, else OpenCL's
// own shared virtual memory, whose functions stand in Functions.
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
  cl_context context = nullptr;  // one a platform: its devices share memory and events
  UnifiedMemory unified;
  std::string name;         // "PoCL: pthread-..."
  std::string fingerprint;  // of its compiler
  std::string options;      // for its compiler
  bool is_cpu = false;
  uint64_t total_memory = 0;
  std::atomic<uint64_t> used_memory{0};
};

// Once, after open_library.
HpStatus find_devices();
int device_count();
bool one_context();  // whether all devices share one

// HP_OK and the device, or host->fail.
HpStatus enter(int device, Device** found);

// What suits all devices: work-items in a group, and bytes that a group shares.
uint32_t group_size();
uint32_t local_memory();

HpStatus properties(int device, HpProperties* properties);
HpStatus memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes);

}  // namespace ocl
