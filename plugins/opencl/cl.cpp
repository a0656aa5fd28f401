#include "cl.h"

#include <dlfcn.h>

#include <string>

#include "host.h"

namespace ocl {

Functions cl;

namespace {

const char* advice =
    "Install your device's driver, or PoCL for the CPU (Debian: apt-get install pocl-opencl-icd "
    "ocl-icd-libopencl1), or choose another device with HARDPOINT_DEVICE";

const char* name_of(cl_int result) {
  switch (result) {
    case -1:
      return "CL_DEVICE_NOT_FOUND";
    case -2:
      return "CL_DEVICE_NOT_AVAILABLE";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
      return "CL_MEM_OBJECT_ALLOCATION_FAILURE";
    case CL_OUT_OF_RESOURCES:
      return "CL_OUT_OF_RESOURCES";
    case CL_OUT_OF_HOST_MEMORY:
      return "CL_OUT_OF_HOST_MEMORY";
    case CL_BUILD_PROGRAM_FAILURE:
      return "CL_BUILD_PROGRAM_FAILURE";
    case -14:
      return "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST";
    case CL_INVALID_VALUE:
      return "CL_INVALID_VALUE";
    case -42:
      return "CL_INVALID_BINARY";
    case -46:
      return "CL_INVALID_KERNEL_NAME";
    case -50:
      return "CL_INVALID_ARG_VALUE";
    case -51:
      return "CL_INVALID_ARG_SIZE";
    case -54:
      return "CL_INVALID_WORK_GROUP_SIZE";
    case -1001:
      return "CL_PLATFORM_NOT_FOUND_KHR";
    default:
      return "see CL/cl.h";
  }
}

}  // namespace

HpStatus open_library() {
  void* library = nullptr;
  std::string reason;
  for (const char* name : {"libOpenCL.so.1", "libOpenCL.so"}) {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library) break;
    const char* const error = dlerror();
    reason += (reason.empty() ? "" : "; ") + std::string(error ? error : name);
  }
  if (!library) return host->fail(HP_NOT_SUPPORTED, "no OpenCL library was found: %s. %s", reason.c_str(), advice);
#define OCL_FIND(here, exported, result, parameters)                           \
  cl.here = reinterpret_cast<decltype(cl.here)>(dlsym(library, #exported));    \
  if (!cl.here)                                                                \
    return host->fail(HP_NOT_SUPPORTED, "libOpenCL has no function " #exported \
                                        ": version 2.0 or a newer one "        \
                                        "is needed");
  OCL_FUNCTIONS(OCL_FIND)
#undef OCL_FIND
  cl_uint platforms = 0;
  const cl_int result = cl.get_platforms(0, nullptr, &platforms);
  if (result != CL_SUCCESS || platforms == 0)
    return host->fail(HP_NOT_SUPPORTED, "OpenCL found no driver on this machine (%d, %s). %s", result, name_of(result),
                      advice);
  return HP_OK;
}

HpStatus opencl_error(int device, cl_int result, const char* what) {
  HpStatus status = HP_ERROR;
  switch (result) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
      status = HP_OUT_OF_MEMORY;
      break;
    case CL_INVALID_VALUE:
      status = HP_INVALID_ARGUMENT;
      break;
    default:
      break;
  }
  if (device < 0) return host->fail(status, "ocl: %s: OpenCL error %d (%s)", what, result, name_of(result));
  return host->fail(status, "ocl:%d: %s: OpenCL error %d (%s)", device, what, result, name_of(result));
}

}  // namespace ocl
