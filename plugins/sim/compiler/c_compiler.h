// The machine's C compiler: finds it and runs it on one source.
#pragma once

#include <string>

#include "hardpoint/plugin.h"

namespace sim {

// Looks for HARDPOINT_CC, else cc, gcc or clang on PATH. Called once, from hp_plugin_init. A missing compiler is an
// error only when something must be compiled.
void find_c_compiler();

// Compiles `source` into a shared library and returns its bytes. `options` are separated by blanks.
HpStatus compile_source(const char* source, const char* options, std::string* library);

}  // namespace sim
