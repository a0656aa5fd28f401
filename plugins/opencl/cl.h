// The part of the OpenCL API used here, declared so that no OpenCL header is needed. Names and values follow the
// Khronos headers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hardpoint/plugin.h"

namespace ocl {

using cl_int = int32_t;
using cl_uint = uint32_t;
using cl_ulong = uint64_t;
using cl_bitfield = uint64_t;
using cl_platform_id = struct _cl_platform_id*;
using cl_device_id = struct _cl_device_id*;
using cl_context = struct _cl_context*;
using cl_command_queue = struct _cl_command_queue*;
using cl_program = struct _cl_program*;
using cl_kernel = struct _cl_kernel*;
using cl_event = struct _cl_event*;

enum : cl_int {
  CL_SUCCESS = 0,
  CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
  CL_OUT_OF_RESOURCES = -5,
  CL_OUT_OF_HOST_MEMORY = -6,
  CL_PROFILING_INFO_NOT_AVAILABLE = -7,
  CL_BUILD_PROGRAM_FAILURE = -11,
  CL_INVALID_VALUE = -30,
  CL_COMPLETE = 0,
};

enum : cl_uint {
  CL_PLATFORM_NAME = 0x0902,
  CL_DEVICE_TYPE = 0x1000,
  CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
  CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
  CL_DEVICE_MAX_CLOCK_FREQUENCY = 0x100C,
  CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
  CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
  CL_DEVICE_GLOBAL_MEM_CACHE_SIZE = 0x101E,
  CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
  CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
  CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032,
  CL_DEVICE_HALF_FP_CONFIG = 0x1033,
  CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
  CL_DEVICE_NAME = 0x102B,
  CL_DRIVER_VERSION = 0x102D,
  CL_DEVICE_VERSION = 0x102F,
  CL_DEVICE_EXTENSIONS = 0x1030,
  CL_DEVICE_SVM_CAPABILITIES = 0x1053,
  CL_QUEUE_PROPERTIES = 0x1093,
  CL_CONTEXT_PLATFORM = 0x1084,
  CL_PROGRAM_DEVICES = 0x1163,
  CL_PROGRAM_BINARY_SIZES = 0x1165,
  CL_PROGRAM_BINARIES = 0x1166,
  CL_PROGRAM_BUILD_LOG = 0x1183,
  CL_KERNEL_EXEC_INFO_INDIRECT_DEVICE_ACCESS_INTEL = 0x4201,
  CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11D3,
  CL_EVENT_CONTEXT = 0x11D4,
  CL_PROFILING_COMMAND_END = 0x1283,
};

enum : cl_bitfield {
  CL_DEVICE_TYPE_CPU = 1 << 1,
  CL_DEVICE_TYPE_GPU = 1 << 2,
  CL_DEVICE_TYPE_ALL = 0xFFFFFFFF,
  CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT = 1 << 7,
  CL_DEVICE_SVM_COARSE_GRAIN_BUFFER = 1 << 0,
  CL_MEM_READ_WRITE = 1 << 0,
  CL_QUEUE_PROFILING_ENABLE = 1 << 1,
};

// X(member, exported name, result, parameters)
#define OCL_FUNCTIONS(X)                                                                                          \
  X(get_platforms, clGetPlatformIDs, cl_int, (cl_uint, cl_platform_id*, cl_uint*))                                \
  X(platform_info, clGetPlatformInfo, cl_int, (cl_platform_id, cl_uint, size_t, void*, size_t*))                  \
  X(extension, clGetExtensionFunctionAddressForPlatform, void*, (cl_platform_id, const char*))                    \
  X(get_devices, clGetDeviceIDs, cl_int, (cl_platform_id, cl_bitfield, cl_uint, cl_device_id*, cl_uint*))         \
  X(device_info, clGetDeviceInfo, cl_int, (cl_device_id, cl_uint, size_t, void*, size_t*))                        \
  X(create_context, clCreateContext, cl_context,                                                                  \
    (const intptr_t*, cl_uint, const cl_device_id*, void (*)(const char*, const void*, size_t, void*), void*,     \
     cl_int*))                                                                                                    \
  X(create_queue, clCreateCommandQueueWithProperties, cl_command_queue,                                           \
    (cl_context, cl_device_id, const cl_bitfield*, cl_int*))                                                      \
  X(release_queue, clReleaseCommandQueue, cl_int, (cl_command_queue))                                             \
  X(flush, clFlush, cl_int, (cl_command_queue))                                                                   \
  X(svm_allocate, clSVMAlloc, void*, (cl_context, cl_bitfield, size_t, cl_uint))                                  \
  X(svm_free, clSVMFree, void, (cl_context, void*))                                                               \
  X(svm_copy, clEnqueueSVMMemcpy, cl_int,                                                                         \
    (cl_command_queue, cl_uint, void*, const void*, size_t, cl_uint, const cl_event*, cl_event*))                 \
  X(marker, clEnqueueMarkerWithWaitList, cl_int, (cl_command_queue, cl_uint, const cl_event*, cl_event*))         \
  X(barrier, clEnqueueBarrierWithWaitList, cl_int, (cl_command_queue, cl_uint, const cl_event*, cl_event*))       \
  X(wait_for_events, clWaitForEvents, cl_int, (cl_uint, const cl_event*))                                         \
  X(event_info, clGetEventInfo, cl_int, (cl_event, cl_uint, size_t, void*, size_t*))                              \
  X(event_times, clGetEventProfilingInfo, cl_int, (cl_event, cl_uint, size_t, void*, size_t*))                    \
  X(retain_event, clRetainEvent, cl_int, (cl_event))                                                              \
  X(release_event, clReleaseEvent, cl_int, (cl_event))                                                            \
  X(program_from_source, clCreateProgramWithSource, cl_program,                                                   \
    (cl_context, cl_uint, const char**, const size_t*, cl_int*))                                                  \
  X(program_from_binary, clCreateProgramWithBinary, cl_program,                                                   \
    (cl_context, cl_uint, const cl_device_id*, const size_t*, const unsigned char**, cl_int*, cl_int*))           \
  X(build_program, clBuildProgram, cl_int,                                                                        \
    (cl_program, cl_uint, const cl_device_id*, const char*, void (*)(cl_program, void*), void*))                  \
  X(program_info, clGetProgramInfo, cl_int, (cl_program, cl_uint, size_t, void*, size_t*))                        \
  X(build_info, clGetProgramBuildInfo, cl_int, (cl_program, cl_device_id, cl_uint, size_t, void*, size_t*))       \
  X(release_program, clReleaseProgram, cl_int, (cl_program))                                                      \
  X(create_kernel, clCreateKernel, cl_kernel, (cl_program, const char*, cl_int*))                                 \
  X(release_kernel, clReleaseKernel, cl_int, (cl_kernel))                                                         \
  X(set_argument, clSetKernelArg, cl_int, (cl_kernel, cl_uint, size_t, const void*))                              \
  X(set_svm_pointer, clSetKernelArgSVMPointer, cl_int, (cl_kernel, cl_uint, const void*))                         \
  X(kernel_exec_info, clSetKernelExecInfo, cl_int, (cl_kernel, cl_uint, size_t, const void*))                     \
  X(launch, clEnqueueNDRangeKernel, cl_int,                                                                       \
    (cl_command_queue, cl_kernel, cl_uint, const size_t*, const size_t*, const size_t*, cl_uint, const cl_event*, \
     cl_event*))

struct Functions {
#define OCL_DECLARE(here, exported, result, parameters) result(*here) parameters = nullptr;
  OCL_FUNCTIONS(OCL_DECLARE)
#undef OCL_DECLARE
};

extern Functions cl;  // filled in by open_library

// Opens libOpenCL, which loads the installed drivers. HP_OK, or host->fail with the remedy.
HpStatus open_library();

// Reports a result other than CL_SUCCESS; `what` names the failed action. `device` may be -1 for none.
HpStatus opencl_error(int device, cl_int result, const char* what);

#define OCL_CHECK(device, call, what)                                                            \
  do {                                                                                           \
    if (const ::ocl::cl_int result_ = (call)) return ::ocl::opencl_error(device, result_, what); \
  } while (0)

}  // namespace ocl
