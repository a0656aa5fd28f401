// Re-runs kernel calls saved by a debugging tool.
#pragma once

#include <pybind11/pybind11.h>

namespace hp::paddle_adapter {

// Binds the Python function `call_kernel`.
void bind_call_replay(pybind11::module_& module);

}  // namespace hp::paddle_adapter
