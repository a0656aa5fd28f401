// Calls that a tool sees, with their arguments and results, whichever tier serves them.
//
// A watched operator's wrapper takes the boxed way at once, to `watch`, which tells the tool, calls the same overload
// again (this time the wrapper goes on), and tells the tool what came out. So tools need no mode of torch's and work
// for every thread, forward and backward; and an operator that nobody watches is called as ever.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>

#include "adapter.h"

namespace hp::torch_adapter {

// Of a watched operator: whether this call is to go to `watch`.
bool to_watch(const Operator& op);
void watch(const c10::OperatorHandle& handle, torch::jit::Stack* stack);

// Where the Python program is, for the end of an error message.
std::string python_line();

}  // namespace hp::torch_adapter
