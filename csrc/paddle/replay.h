// Calls made again from what a tool has saved.
#pragma once

#include <pybind11/pybind11.h>

namespace hp::paddle_adapter {

// What Python sees of it: call_kernel.
void add_replay(pybind11::module_& module);

}  // namespace hp::paddle_adapter
