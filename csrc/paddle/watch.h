// Calls that a tool sees, with their arguments and results, whichever tier serves them.
#pragma once

#include <pybind11/pybind11.h>

#include "call.h"

namespace hp::paddle_adapter {

// Of a watched operator: whether this call is to go to `watch`.
bool to_watch(const Operator& op);
// Tells the tool, serves the call by `serve`, and tells the tool what came out.
void watch(Call& call, void (*serve)(Call&));

// What Python sees of it.
void add_watch(pybind11::module_& module);

}  // namespace hp::paddle_adapter
