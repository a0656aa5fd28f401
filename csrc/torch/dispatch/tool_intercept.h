// Shows debugging tools the arguments and results of a call, whichever tier serves it.
//
// The wrapper of an intercepted operator goes through the boxed fallback to `intercept`, which notifies the tool, calls
// the same overload again (the wrapper then proceeds) and passes the results to the tool. Tools need no torch dispatch
// mode and work on every thread, forward and backward; other operators are called as usual.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>

#include "runtime/adapter.h"

namespace hp::torch_adapter {

// For an intercepted operator: whether this call goes to `intercept`.
bool should_intercept(const Operator& op);
void intercept(const c10::OperatorHandle& handle, torch::jit::Stack* stack);

// The current line of the Python program, as the end of an error message.
std::string python_location();

}  // namespace hp::torch_adapter
