// One optimizer step on one tensor, in place (Paddle's optimizers). The learning rate and other scalars are one-element
// tensors of one dtype; all state tensors have one dtype. If a step returns false, nothing was changed.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

// Common to all steps. `master` is the high-precision copy of the parameter, or undefined; the state has its dtype,
// else the parameter's. All are contiguous.
struct OptimizerTensors {
  View param, grad, master, lr;
};

bool sgd_step(const OpBinding& binding, Device& device, const OptimizerTensors& t);

struct MomentumHyperparams {
  double mu, decay, rescale;
};
bool momentum_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& velocity,
                   bool nesterov, const MomentumHyperparams& numbers);

// `max_square` is defined for AMSGrad only. power1 and power2 are beta1 and beta2 to the power of this step; see
// advance_beta_powers. `decay` is AdamW's decoupled weight decay, scaled by lr * rate_ratio.
struct AdamHyperparams {
  double beta1, beta2, eps, rate_ratio, decay;
};
bool adam_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& average,
               const View& square, const View& max_square, const View& power1, const View& power2,
               const AdamHyperparams& numbers);
bool adamax_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& average,
                 const View& largest, const View& power1, const AdamHyperparams& numbers);

struct RmsDecayHyperparams {
  double rho, eps, momentum;
};
bool adagrad_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& sum, double eps);
bool adadelta_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& square,
                   const View& change, const RmsDecayHyperparams& numbers);
// `mean` is defined for the centered variant only.
bool rmsprop_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& square,
                  const View& moment, const View& mean, const RmsDecayHyperparams& numbers);

// LAMB in two steps; between them the caller computes the norms of the parameter and of the direction, in the state's
// dtype. Only lamb_step counts as a call.
struct LambHyperparams {
  double beta1, beta2, eps, decay;
};
bool lamb_direction(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& average,
                    const View& square, const View& direction, const View& power1, const View& power2,
                    const LambHyperparams& numbers);
bool lamb_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& direction,
               const View& param_norm, const View& norm, bool adapt);

// The following steps update their scalar state themselves.
struct NadamHyperparams {
  double beta1, beta2, eps, decay, base;
};
bool nadam_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& average,
                const View& square, const View& decay_power, const View& power2, const View& mu_product,
                const NadamHyperparams& numbers);
struct RadamHyperparams {
  double beta1, beta2, eps;
};
bool radam_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& average,
                const View& square, const View& power1, const View& power2, const View& rho,
                const RadamHyperparams& numbers);

bool asgd_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& sum, const View& last,
               const View& count);
// `rates` holds a learning rate per element, in the state's dtype; `range` and `etas` are pairs. lr is not read.
bool rprop_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& last,
                const View& rates, const View& range, const View& etas);

// Multiplies the powers by beta1 and beta2. Does not count as a call.
bool advance_beta_powers(const OpBinding& binding, Device& device, const View& power1, const View& power2, double beta1,
                         double beta2);

// Updates the loss scale. `good` and `bad` are int32 counts of consecutive steps; `found` is bool: whether a gradient
// was not finite.
struct LossScaleHyperparams {
  double growth, backoff;
  int64_t growth_after, backoff_after;
};
bool loss_scale_step(const OpBinding& binding, Device& device, const View& factor, const View& good, const View& bad,
                     const View& found, const LossScaleHyperparams& numbers);

}  // namespace hp::ops
