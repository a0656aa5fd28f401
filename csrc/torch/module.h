// Parts of the Python module that have a file of their own.
#pragma once

#include <pybind11/pybind11.h>

namespace hp::torch_adapter {

void bind_graph(pybind11::module_& m);
void bind_distributed(pybind11::module_& module);

}  // namespace hp::torch_adapter
