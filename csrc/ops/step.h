// One step of an optimiser on one tensor, in place. A learning rate and other single numbers are tensors of one
// element, all of one dtype; so are all tensors of state. False: nothing was changed.
#pragma once

#include "../core/service.h"

namespace hp::ops {

// What every step has. `master` is the parameter's copy of higher precision, undefined where it has none; the state has
// its dtype, else the parameter's. All are contiguous.
struct Stepped {
  View param, grad, master, lr;
};

bool sgd_step(const Service& service, Device& device, const Stepped& at);

struct MomentumNumbers {
  double mu, decay, rescale;
};
bool momentum_step(const Service& service, Device& device, const Stepped& at, const View& velocity, bool nesterov,
                   const MomentumNumbers& numbers);

// `highest` is undefined unless AMSGrad is wanted. The powers are those of this step; `step_powers` moves them on. The
// decay is AdamW's, and goes with the rate times the ratio.
struct AdamNumbers {
  double beta1, beta2, eps, rate_ratio, decay;
};
bool adam_step(const Service& service, Device& device, const Stepped& at, const View& average, const View& square,
               const View& highest, const View& power1, const View& power2, const AdamNumbers& numbers);
bool adamax_step(const Service& service, Device& device, const Stepped& at, const View& average, const View& largest,
                 const View& power1, const AdamNumbers& numbers);

struct DecayingNumbers {
  double rho, eps, momentum;
};
bool adagrad_step(const Service& service, Device& device, const Stepped& at, const View& sum, double eps);
bool adadelta_step(const Service& service, Device& device, const Stepped& at, const View& square, const View& change,
                   const DecayingNumbers& numbers);
// `mean` is undefined unless the centred form is wanted.
bool rmsprop_step(const Service& service, Device& device, const Stepped& at, const View& square, const View& moment,
                  const View& mean, const DecayingNumbers& numbers);

// LAMB in two parts; between them the caller finds the norms of the parameter and of the direction, with the state's
// dtype. Only the second part counts.
struct LambNumbers {
  double beta1, beta2, eps, decay;
};
bool lamb_direction(const Service& service, Device& device, const Stepped& at, const View& average, const View& square,
                    const View& direction, const View& power1, const View& power2, const LambNumbers& numbers);
bool lamb_step(const Service& service, Device& device, const Stepped& at, const View& direction, const View& param_norm,
               const View& norm, bool adapt);

// These move their single numbers on themselves.
struct NadamNumbers {
  double beta1, beta2, eps, decay, base;
};
bool nadam_step(const Service& service, Device& device, const Stepped& at, const View& average, const View& square,
                const View& decay_power, const View& power2, const View& mu_product, const NadamNumbers& numbers);
struct RadamNumbers {
  double beta1, beta2, eps;
};
bool radam_step(const Service& service, Device& device, const Stepped& at, const View& average, const View& square,
                const View& power1, const View& power2, const View& rho, const RadamNumbers& numbers);

bool asgd_step(const Service& service, Device& device, const Stepped& at, const View& sum, const View& last,
               const View& count);
// A rate for each element in `rates`, which has the state's dtype; `range` and `etas` are pairs; `at.lr` is not read.
bool rprop_step(const Service& service, Device& device, const Stepped& at, const View& last, const View& rates,
                const View& range, const View& etas);

// Powers of the two numbers, one step on. Nothing is counted.
bool step_powers(const Service& service, Device& device, const View& power1, const View& power2, double beta1,
                 double beta2);

// The next factor of the loss; `good` and `bad` are int32 and count steps in a row, `found` is bool: whether a gradient
// was not finite.
struct LossScaleNumbers {
  double growth, backoff;
  int64_t growth_after, backoff_after;
};
bool loss_scale_step(const Service& service, Device& device, const View& factor, const View& good, const View& bad,
                     const View& found, const LossScaleNumbers& numbers);

}  // namespace hp::ops
