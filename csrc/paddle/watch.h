// Calls that a tool sees, with their arguments and results, whichever tier serves them; and calls made again from what
// a tool has saved.
#pragma once

#include <pybind11/pybind11.h>

#include "call.h"

namespace hp::paddle_adapter {

// Of a watched operator: whether this call is to go to `watch`.
bool to_watch(const Operator& op);
// Tells the tool, serves the call by `serve`, and tells the tool what came out.
void watch(Call& call, void (*serve)(Call&));

// The kernel of that name for a dtype; null if there is none.
const PhiKernel* find_kernel(const std::string& name, phi::DataType dtype);
// Serves a call that is described by a context, as one of a graph.
void run_boxed(const PhiKernel& kernel, phi::KernelContext& context);

// What Python sees of it.
void add_to_python(pybind11::module_& module);

}  // namespace hp::paddle_adapter
