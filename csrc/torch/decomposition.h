// The third tier: an operator in terms of others, by PyTorch's own decompositions, which are written in Python.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "adapter.h"

namespace hp::torch_adapter {

// What follows vendor and portable kernels: a decomposition where one is of use, else the CPU.
void next_tier(const c10::OperatorHandle& handle, torch::jit::Stack* stack);

// The same for operators that the tables have kernels for: where the device can compile them, what they decline is a
// mistake, which torch's own kernel names best, or a rare dtype.
void after_kernels(const c10::OperatorHandle& handle, torch::jit::Stack* stack);

}  // namespace hp::torch_adapter
