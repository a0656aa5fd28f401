// Fused optimizer steps on lists of tensors, and gradient scaling for AMP.
#pragma once

#include <vector>

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

// Lists have equal length. Tensors at one index have the same dtype and are dense with the same strides.
using Views = std::vector<View>;

// Common to all steps. Views are undefined or hold one float32; `lr_tensor`, if defined, replaces lr.
struct StepOptions {
  double lr = 0;
  View lr_tensor, grad_scale, found_inf;
  bool maximize = false;
  double weight_decay = 0;
};

struct AdamOptions {
  double beta1, beta2, eps;
  bool decoupled, amsgrad;  // decoupled: AdamW's weight decay
};
bool fused_adam(const OpBinding& binding, Device& device, const Views& params, const Views& grads,
                const Views& averages, const Views& squares, const Views& max_squares, const Views& steps,
                const StepOptions& step, const AdamOptions& options);

struct SgdOptions {
  double momentum, dampening;
  bool nesterov, first_step;
};
// `buffers` is empty without momentum.
bool fused_sgd(const OpBinding& binding, Device& device, const Views& params, const Views& grads, const Views& buffers,
               const StepOptions& step, const SgdOptions& options);

bool fused_adagrad(const OpBinding& binding, Device& device, const Views& params, const Views& grads, const Views& sums,
                   const Views& steps, const StepOptions& step, double lr_decay, double eps);

// The gradients are dense, of any floating-point dtypes.
bool amp_unscale(const OpBinding& binding, Device& device, const Views& grads, const View& found_inf,
                 const View& inv_scale);
bool amp_update_scale(const OpBinding& binding, Device& device, const View& scale, const View& tracker,
                      const View& found_inf, double growth, double backoff, int64_t interval);

}  // namespace hp::ops
