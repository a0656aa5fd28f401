// The third tier: an operator in terms of others, by PyTorch's own decompositions, which are written in Python.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "adapter.h"

namespace hp::torch_adapter {

// What follows vendor and portable kernels: a decomposition where one is of use, else the CPU.
void next_tier(const c10::OperatorHandle& handle, torch::jit::Stack* stack);

}  // namespace hp::torch_adapter
