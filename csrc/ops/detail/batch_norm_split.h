// Batch norm for devices with many work-items per group: splits each channel among several work-groups.
#pragma once

#include "ops/normalization.h"

namespace hp::ops {

// For contiguous images. Return false if the device has no such kernel.
bool split_batch_norm(const OpBinding& binding, Device& device, const View& out, const View& input,
                      const BatchNorm& norm, DType parameters, DType running);
bool split_batch_norm_backward(const OpBinding& binding, Device& device, const View& out, const View& grad_weight,
                               const View& grad_bias, const View& grad, const View& input, const BatchNorm& norm,
                               DType parameters, DType running);

}  // namespace hp::ops
