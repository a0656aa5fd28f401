// The compiler table: kernels in OpenCL C, compiled by the device's driver, cached as its binaries.
#pragma once

#include "hardpoint/plugin.h"

namespace ocl {

const char* fingerprint(int device);
HpStatus compile(int device, const char* source, const char* options, void** binary, size_t* bytes);
void release_binary(void* binary);
HpStatus load(int device, const void* binary, size_t bytes, HpProgram* program);
HpStatus unload(int device, HpProgram program);
HpStatus find(int device, HpProgram program, const char* name, HpFunction* function);
HpStatus launch(int device, HpStream stream, HpFunction function, const uint32_t* groups, const uint32_t* group_size,
                const HpLaunchArg* args, uint32_t num_args);

}  // namespace ocl
