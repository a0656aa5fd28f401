// The compiler table: portable kernels, compiled by NVRTC and launched by the driver.
#pragma once

#include "hardpoint/plugin.h"

namespace nv {

// Work-items per group, and the shared memory available without opting in to more.
constexpr uint32_t kGroupSize = 256, kLocalMemory = 48 << 10;

const char* fingerprint(int device);
HpStatus compile(int device, const char* source, const char* options, void** binary, size_t* bytes);
void release_binary(void* binary);
HpStatus load(int device, const void* binary, size_t bytes, HpProgram* program);
HpStatus unload(int device, HpProgram program);
HpStatus find(int device, HpProgram program, const char* name, HpFunction* function);
HpStatus launch(int device, HpStream stream, HpFunction function, const uint32_t* groups, const uint32_t* group_size,
                const HpLaunchArg* args, uint32_t num_args);
HpStatus launch_with(int device, HpStream stream, HpFunction function, const HpLaunch* options, const HpLaunchArg* args,
                     uint32_t num_args);
HpStatus attributes(int device, HpFunction function, HpAttributes* attributes);

}  // namespace nv
