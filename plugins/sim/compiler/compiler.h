// The compiler table: portable kernels in the "c" dialect, compiled by the machine's C compiler.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hardpoint/plugin.h"

namespace sim {

constexpr uint32_t kLocalMemory = 1 << 18;  // a group's shared memory is an array on the stack of its thread

const char* fingerprint(int device);
HpStatus compile(int device, const char* source, const char* options, void** binary, size_t* bytes);
void release_binary(void* binary);
HpStatus load(int device, const void* binary, size_t bytes, HpProgram* handle);
HpStatus unload(int device, HpProgram handle);
HpStatus find(int device, HpProgram handle, const char* name, HpFunction* function);
HpStatus launch(int device, HpStream stream, HpFunction handle, const uint32_t* groups, const uint32_t* group_size,
                const HpLaunchArg* args, uint32_t num_args);

HpStatus launch_with(int device, HpStream stream, HpFunction function, const HpLaunch* options, const HpLaunchArg* args,
                     uint32_t num_args);
HpStatus attributes(int device, HpFunction function, HpAttributes* attributes);

}  // namespace sim
