// Batch norm for devices whose groups have many work-items: a channel is shared out among several groups.
#pragma once

#include "normalisation.h"

namespace hp::ops {

// Contiguous images only. False where there is no such kernel.
bool channels_forward(const Service& service, Device& device, const View& out, const View& input, const BatchNorm& norm,
                      DType parameters, DType running);
bool channels_backward(const Service& service, Device& device, const View& out, const View& grad_weight,
                       const View& grad_bias, const View& grad, const View& input, const BatchNorm& norm,
                       DType parameters, DType running);

}  // namespace hp::ops
