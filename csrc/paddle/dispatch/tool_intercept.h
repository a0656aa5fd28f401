// Reports calls to debugging tools in Python, with arguments and results, for every tier.
#pragma once

#include <pybind11/pybind11.h>

#include "dispatch/call.h"

namespace hp::paddle_adapter {

// Whether this call of an intercepted operator must go through `intercept`: false inside a tool or without Python.
bool should_intercept(const Operator& op);
// Reports the call to the tool, runs `serve`, and reports the results or the failure. Rethrows what `serve` throws; an
// exception raised by the tool becomes an Error.
void intercept(Call& call, void (*serve)(Call&));

// Binds the Python classes Tensor, Holder, Reference and Call.
void bind_tool_intercept(pybind11::module_& module);

}  // namespace hp::paddle_adapter
