// Calls in a wider dtype, for CPU kernels that lack a dtype that other devices support.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>

#include "core/dispatch/operator.h"

namespace hp::torch_adapter {

// Calls `run` with the CPU arguments of `stack`: 16-bit floats as float32, complex32 as complex64, and integers of
// some operators as float64.
// Results are converted back, and so are written arguments. Returns false if no dtype can be widened, or if the caller
// chose a dtype.
bool call_wider(const Operator& op, const c10::OperatorHandle& handle, torch::jit::Stack* stack,
                const std::function<void(torch::jit::Stack*)>& run);

}  // namespace hp::torch_adapter
