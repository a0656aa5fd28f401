// Portable reductions.
#pragma once

#include <ATen/core/Tensor.h>

#include "../core/portable.h"
#include "adapter.h"

namespace hp::torch_adapter {

// Reduces `self` along `dims` (all of them if there are none) into `output`, which has its size already. False when
// there is no portable kernel for it: the next tier takes the call.
bool portable_reduction(Operator& op, PortableKernels& kernels, const at::Tensor& output, const at::Tensor& self,
                        at::OptionalIntArrayRef dims, bool keepdim);

}  // namespace hp::torch_adapter
