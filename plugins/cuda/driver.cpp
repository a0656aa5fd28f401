#include "driver.h"

#include <string>

#include "dynamic_library.h"
#include "host.h"

namespace nv {

Driver driver;

HpStatus open_driver() {
#define NV_SYMBOL(here, exported, parameters) {#exported, reinterpret_cast<void**>(&driver.here)},
  static const Symbol symbols[] = {NV_DRIVER_FUNCTIONS(NV_SYMBOL){nullptr, nullptr}};
#undef NV_SYMBOL
  static const char* const names[] = {"libcuda.so.1", "libcuda.so", nullptr};
  std::string reason;
  if (!open_library(names, symbols, &reason))
    return host->fail(HP_NOT_SUPPORTED,
                      "no NVIDIA driver was found: %s. Install the driver, or choose another device with "
                      "HARDPOINT_DEVICE",
                      reason.c_str());
  const CUresult result = driver.init(0);
  if (result == CUDA_SUCCESS) return HP_OK;
  const char* text = "unknown error";
  driver.get_error_string(result, &text);
  return host->fail(HP_NOT_SUPPORTED,
                    "the NVIDIA driver cannot be initialized (%d): %s. Check nvidia-smi, or choose another device "
                    "with HARDPOINT_DEVICE",
                    result, text);
}

HpStatus driver_error(int device, CUresult result, const char* what) {
  const char *name = "unknown", *text = "unknown error";
  driver.get_error_name(result, &name);
  driver.get_error_string(result, &text);
  HpStatus status = HP_ERROR;
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      status = HP_OUT_OF_MEMORY;
      break;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
      status = HP_INVALID_ARGUMENT;
      break;
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_LAUNCH_FAILED:
      status = HP_DEVICE_LOST;
      break;
    default:
      break;
  }
  return host->fail(status, "nv:%d: %s: %s (%s)", device, what, text, name);
}

}  // namespace nv
