// The third tier: PyTorch's own decompositions of an operator into others, written in Python.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "runtime/adapter.h"

namespace hp::torch_adapter {

// Serves a call that vendor and portable kernels declined: by a useful decomposition, else on the CPU.
void next_tier(const c10::OperatorHandle& handle, torch::jit::Stack* stack);

// The same for operators with portable kernels. If the device can compile those, a declined call has a rare dtype or is
// a mistake, which torch's CPU kernel reports best: it goes straight to the CPU tier.
void fallback_after_decline(const c10::OperatorHandle& handle, torch::jit::Stack* stack);

// For operators that the CPU has no kernel for either: runs the decomposition on the CPU, with CPU tensors on the
// stack.
bool has_decomposition(Operator& op);
void decompose_on_cpu(const c10::OperatorHandle& handle, Operator& op, torch::jit::Stack* stack);

}  // namespace hp::torch_adapter
