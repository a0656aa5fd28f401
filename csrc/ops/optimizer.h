// Steps of optimisers on lists of tensors, and the scaling of gradients.
#pragma once

#include <vector>

#include "../core/service.h"

namespace hp::ops {

// Lists of one length. All tensors of one position have the same dtype and are dense with the same strides.
using Views = std::vector<View>;

// What every step has: undefined views for what is not there, else one float32 each. `lr_tensor` takes the place of lr.
struct StepOptions {
  double lr = 0;
  View lr_tensor, grad_scale, found_inf;
  bool maximize = false;
  double weight_decay = 0;
};

struct AdamOptions {
  double beta1, beta2, eps;
  bool decoupled, amsgrad;  // the weight decay of AdamW
};
bool fused_adam(const Service& service, Device& device, const Views& params, const Views& grads, const Views& averages,
                const Views& squares, const Views& highest, const Views& steps, const StepOptions& step,
                const AdamOptions& options);

struct SgdOptions {
  double momentum, dampening;
  bool nesterov, first_step;
};
// `buffers` is empty without momentum.
bool fused_sgd(const Service& service, Device& device, const Views& params, const Views& grads, const Views& buffers,
               const StepOptions& step, const SgdOptions& options);

bool fused_adagrad(const Service& service, Device& device, const Views& params, const Views& grads, const Views& sums,
                   const Views& steps, const StepOptions& step, double lr_decay, double eps);

// The tensors are dense, of any floating-point dtypes.
bool amp_unscale(const Service& service, Device& device, const Views& grads, const View& found_inf,
                 const View& inv_scale);
bool amp_update_scale(const Service& service, Device& device, const View& scale, const View& tracker,
                      const View& found_inf, double growth, double backoff, int64_t interval);

}  // namespace hp::ops
