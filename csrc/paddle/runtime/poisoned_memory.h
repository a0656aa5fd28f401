// Memory filled with a known byte before kernels see it, so that an output they do not write shows.
#pragma once

#include <pybind11/pybind11.h>

namespace hp::paddle_adapter {

void bind_poisoned_memory(pybind11::module_& module);

}  // namespace hp::paddle_adapter
