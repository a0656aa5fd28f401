// Bindings of the Python module that are defined outside module.cpp.
#pragma once

#include <pybind11/pybind11.h>

namespace hp::torch_adapter {

void bind_graph(pybind11::module_& m);
void bind_device_graphs(pybind11::module_& m);
void bind_graphed_calls(pybind11::module_& m);
void bind_distributed(pybind11::module_& module);

}  // namespace hp::torch_adapter
