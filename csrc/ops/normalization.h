// Layer, RMS, batch and group normalization and their backward. All views are contiguous, except in batch_norm.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

// Normalizes rows of n elements. Weight and bias may be undefined; mean and rstd have input's accumulation dtype.
// `mean` is undefined for RMS norm.
struct RowStatistics {
  View mean, rstd;
};
bool layer_norm(const OpBinding& binding, Device& device, const View& out, const RowStatistics& statistics,
                const View& input, const View& weight, const View& bias, int64_t n, double eps);
bool rms_norm(const OpBinding& binding, Device& device, const View& out, const View& rstd, const View& input,
              const View& weight, int64_t n, double eps);

// Any of the outputs may be undefined.
bool layer_norm_backward(const OpBinding& binding, Device& device, const View& out, const View& grad_weight,
                         const View& grad_bias, const View& grad, const View& input, const RowStatistics& statistics,
                         const View& weight, int64_t n);
bool rms_norm_backward(const OpBinding& binding, Device& device, const View& out, const View& grad_weight,
                       const View& grad, const View& input, const View& rstd, const View& weight, int64_t n);

// Weight, bias and the running statistics may be undefined. Training writes the saved statistics and updates the
// running ones; otherwise the running ones are used.
struct BatchNorm {
  View weight, bias, running_mean, running_var, save_mean, save_invstd;
  bool train;
  double momentum, eps;
};
// input is N x C x ..., contiguous or channels-last; out has the same layout.
bool batch_norm(const OpBinding& binding, Device& device, const View& out, const View& input, const BatchNorm& norm);
// Any of the outputs may be undefined; norm.bias and norm.momentum are not used.
bool batch_norm_backward(const OpBinding& binding, Device& device, const View& out, const View& grad_weight,
                         const View& grad_bias, const View& grad, const View& input, const BatchNorm& norm);

// N x C x plane elements in `groups` groups of channels; mean and rstd are N x groups.
struct GroupNormShape {
  int64_t batch, channels, plane, groups;
};
bool group_norm(const OpBinding& binding, Device& device, const View& out, const View& mean, const View& rstd,
                const View& input, const View& weight, const View& bias, const GroupNormShape& shape, double eps);
bool group_norm_backward(const OpBinding& binding, Device& device, const View& out, const View& grad_weight,
                         const View& grad_bias, const View& grad, const View& input, const View& mean, const View& rstd,
                         const View& weight, const GroupNormShape& shape);

}  // namespace hp::ops
