// NVIDIA's run-time compiler. It needs no driver and no device.
#pragma once

#include <string>

#include "hardpoint/plugin.h"

namespace nv {

// "13.0", or "none" where there is no compiler.
std::string compiler_version();

// Compiles for a compute capability (90 for 9.0): machine code where the compiler knows it, else PTX for the newest one
// that it knows, which the driver translates. `options` are separated by blanks. HP_OK, or host->fail.
HpStatus compile_source(int capability, const char* source, const char* options, std::string* binary);

}  // namespace nv
