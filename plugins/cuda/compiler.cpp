#include "compiler.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "device.h"
#include "host.h"
#include "nvrtc.h"

namespace nv {

const char* fingerprint(int device) {
  // Never destroyed: Hardpoint keeps the pointer.
  static const std::string* const texts = [] {
    auto* made = new std::string[kMaxDevices];
    const std::string version = compiler_version();
    for (int i = 0; i < device_count(); ++i) made[i] = "nvrtc-" + version + "-sm_" + std::to_string(capability(i));
    return made;
  }();
  return device >= 0 && device < kMaxDevices ? texts[device].c_str() : "";
}

HpStatus compile(int device, const char* source, const char* options, void** binary, size_t* bytes) try {
  std::string made;
  if (HpStatus status = compile_source(capability(device), source, options, &made)) return status;
  *binary = malloc(made.size());
  if (!*binary) return host->fail(HP_ERROR, "nv:%d is out of host memory for a kernel binary", device);
  memcpy(*binary, made.data(), made.size());
  *bytes = made.size();
  return HP_OK;
} catch (const std::exception& error) {
  return host->fail(HP_ERROR, "nv:%d: compilation: %s", device, error.what());
}

void release_binary(void* binary) { ::free(binary); }

HpStatus load(int device, const void* binary, size_t, HpProgram* program) {
  if (HpStatus status = make_current(device)) return status;
  CUmodule made = nullptr;
  NV_CHECK(device, driver.module_load(&made, binary), "loading a program");
  *program = reinterpret_cast<HpProgram>(made);
  return HP_OK;
}

HpStatus unload(int device, HpProgram program) {
  if (HpStatus status = make_current(device)) return status;
  NV_CHECK(device, driver.module_unload(reinterpret_cast<CUmodule>(program)), "unloading a program");
  return HP_OK;
}

HpStatus find(int device, HpProgram program, const char* name, HpFunction* function) {
  if (HpStatus status = make_current(device)) return status;
  CUfunction found = nullptr;
  NV_CHECK(device, driver.module_find(&found, reinterpret_cast<CUmodule>(program), name), name);
  *function = reinterpret_cast<HpFunction>(found);
  return HP_OK;
}

HpStatus launch(int device, HpStream stream, HpFunction function, const uint32_t* groups, const uint32_t* group_size,
                const HpLaunchArg* args, uint32_t num_args) {
  constexpr uint32_t kMaxArguments = 256;
  if (HpStatus status = make_current(device)) return status;
  if (groups[0] == 0 || groups[1] == 0 || groups[2] == 0) return HP_OK;
  if (num_args > kMaxArguments)
    return host->fail(HP_NOT_SUPPORTED, "nv:%d: a kernel has %u arguments; at most %u are supported", device, num_args,
                      kMaxArguments);
  // The driver takes the address of each argument, and copies the arguments before it returns.
  void* values[kMaxArguments];
  for (uint32_t i = 0; i < num_args; ++i) values[i] = const_cast<void*>(args[i].value);
  NV_CHECK(device,
           driver.launch(reinterpret_cast<CUfunction>(function), groups[0], groups[1], groups[2], group_size[0],
                         group_size[1], group_size[2], 0, reinterpret_cast<CUstream>(stream), values, nullptr),
           "launching a kernel");
  return HP_OK;
}

}  // namespace nv
