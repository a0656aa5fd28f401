// NVRTC, NVIDIA's run-time compiler. Needs neither a driver nor a device.
#pragma once

#include <string>

#include "hardpoint/plugin.h"

namespace nv {

// "13.0", or "none" if NVRTC is not available.
std::string compiler_version();

// Compiles for a compute capability (90 for 9.0): to machine code if NVRTC supports it, else to PTX for the newest one
// it supports, which the driver translates. `options` are separated by blanks. HP_OK, or host->fail.
HpStatus compile_source(int capability, const char* source, const char* options, std::string* binary);

}  // namespace nv
