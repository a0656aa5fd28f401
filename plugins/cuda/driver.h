// The part of the CUDA driver API used here, declared so that no CUDA header is needed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hardpoint/plugin.h"

namespace nv {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = uint64_t;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;

enum : CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702,
  CUDA_ERROR_ASSERT = 710,
  CUDA_ERROR_LAUNCH_FAILED = 719
};

enum : unsigned { CU_STREAM_NON_BLOCKING = 1, CU_EVENT_DISABLE_TIMING = 2, CU_MEMHOSTALLOC_PORTABLE = 1 };

enum : int {
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
  CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
  CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
  CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
};

enum : int {
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
  CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14
};

enum : int {
  CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
  CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6
};

struct CUlaunchAttribute {
  int id;
  char padding[4];
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int flag;
  } value;
};

struct CUlaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  CUstream stream;
  CUlaunchAttribute* attributes;
  unsigned num_attributes;
};

struct CUuuid {
  char bytes[16];
};

enum : int { CU_STREAM_CAPTURE_MODE_RELAXED = 2 };

// X(member, exported name, parameters)
#define NV_DRIVER_FUNCTIONS(X)                                                                        \
  X(init, cuInit, (unsigned))                                                                         \
  X(get_error_name, cuGetErrorName, (CUresult, const char**))                                         \
  X(get_error_string, cuGetErrorString, (CUresult, const char**))                                     \
  X(device_get_count, cuDeviceGetCount, (int*))                                                       \
  X(device_get, cuDeviceGet, (CUdevice*, int))                                                        \
  X(device_get_name, cuDeviceGetName, (char*, int, CUdevice))                                         \
  X(device_get_attribute, cuDeviceGetAttribute, (int*, int, CUdevice))                                \
  X(device_total_memory, cuDeviceTotalMem_v2, (size_t*, CUdevice))                                    \
  X(primary_context_retain, cuDevicePrimaryCtxRetain, (CUcontext*, CUdevice))                         \
  X(context_get, cuCtxGetCurrent, (CUcontext*))                                                       \
  X(context_set, cuCtxSetCurrent, (CUcontext))                                                        \
  X(memory_info, cuMemGetInfo_v2, (size_t*, size_t*))                                                 \
  X(allocate, cuMemAlloc_v2, (CUdeviceptr*, size_t))                                                  \
  X(free, cuMemFree_v2, (CUdeviceptr))                                                                \
  X(host_allocate, cuMemHostAlloc, (void**, size_t, unsigned))                                        \
  X(host_free, cuMemFreeHost, (void*))                                                                \
  X(copy_to_device, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void*, size_t, CUstream))               \
  X(copy_to_host, cuMemcpyDtoHAsync_v2, (void*, CUdeviceptr, size_t, CUstream))                       \
  X(copy_on_device, cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream))               \
  X(copy_peer, cuMemcpyPeerAsync, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)) \
  X(stream_create, cuStreamCreateWithPriority, (CUstream*, unsigned, int))                            \
  X(stream_destroy, cuStreamDestroy_v2, (CUstream))                                                   \
  X(stream_query, cuStreamQuery, (CUstream))                                                          \
  X(stream_synchronize, cuStreamSynchronize, (CUstream))                                              \
  X(stream_wait_event, cuStreamWaitEvent, (CUstream, CUevent, unsigned))                              \
  X(stream_begin_capture, cuStreamBeginCapture_v2, (CUstream, int))                                   \
  X(stream_end_capture, cuStreamEndCapture, (CUstream, CUgraph*))                                     \
  X(graph_instantiate, cuGraphInstantiateWithFlags, (CUgraphExec*, CUgraph, unsigned long long))      \
  X(graph_destroy, cuGraphDestroy, (CUgraph))                                                         \
  X(graph_launch, cuGraphLaunch, (CUgraphExec, CUstream))                                             \
  X(graph_exec_destroy, cuGraphExecDestroy, (CUgraphExec))                                            \
  X(event_create, cuEventCreate, (CUevent*, unsigned))                                                \
  X(event_destroy, cuEventDestroy_v2, (CUevent))                                                      \
  X(event_record, cuEventRecord, (CUevent, CUstream))                                                 \
  X(event_query, cuEventQuery, (CUevent))                                                             \
  X(event_synchronize, cuEventSynchronize, (CUevent))                                                 \
  X(event_elapsed, cuEventElapsedTime, (float*, CUevent, CUevent))                                    \
  X(module_load, cuModuleLoadData, (CUmodule*, const void*))                                          \
  X(module_unload, cuModuleUnload, (CUmodule))                                                        \
  X(module_find, cuModuleGetFunction, (CUfunction*, CUmodule, const char*))                           \
  X(function_set, cuFuncSetAttribute, (CUfunction, int, int))                                         \
  X(function_get, cuFuncGetAttribute, (int*, int, CUfunction))                                        \
  X(launch_ex, cuLaunchKernelEx, (const CUlaunchConfig*, CUfunction, void**, void**))                 \
  X(launch_host_function, cuLaunchHostFunc, (CUstream, void (*)(void*), void*))                       \
  X(fill_bytes, cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))                      \
  X(can_access_peer, cuDeviceCanAccessPeer, (int*, CUdevice, CUdevice))                               \
  X(device_get_uuid, cuDeviceGetUuid_v2, (CUuuid*, CUdevice))                                         \
  X(device_get_pci_id, cuDeviceGetPCIBusId, (char*, int, CUdevice))                                   \
  X(launch, cuLaunchKernel,                                                                           \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**, void**))

struct Driver {
#define NV_DECLARE(here, exported, parameters) CUresult(*here) parameters = nullptr;
  NV_DRIVER_FUNCTIONS(NV_DECLARE)
#undef NV_DECLARE
};

extern Driver driver;  // filled in by open_driver

// HP_OK, or host->fail with the cause and the remedy.
HpStatus open_driver();

// Reports a result other than CUDA_SUCCESS with the driver's message; `what` names the failed action.
HpStatus driver_error(int device, CUresult result, const char* what);

#define NV_CHECK(device, call, what)                                                             \
  do {                                                                                           \
    if (const ::nv::CUresult result_ = (call)) return ::nv::driver_error(device, result_, what); \
  } while (0)

}  // namespace nv
