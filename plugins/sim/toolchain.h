// The machine's C compiler: finding it, and running it on one source.
#pragma once

#include <string>

#include "hardpoint/plugin.h"

namespace sim {

// Looks for the compiler: HARDPOINT_CC, else cc, gcc or clang on PATH. Called once, from hp_plugin_init; a machine
// without one is no error before something has to be compiled.
void find_toolchain();

// Compiles `source` into a shared library and returns its bytes. `options` are separated by blanks.
HpStatus compile_source(const char* source, const char* options, std::string* library);

}  // namespace sim
