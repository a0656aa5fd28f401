// Random fills, sampling and dropout. kernels/sources/random.c defines how elements map to the generator's blocks.
#pragma once

#include "core/dispatch/vendor_call.h"
#include "core/runtime/philox.h"

namespace hp::ops {

// Values shared with kernels/sources/random.c.
enum class Distribution { kUniform, kNormal, kLogNormal, kExponential, kGeometric, kCauchy, kBernoulli, kInteger };

// Distribution parameters. `a` and `b` are bounds, mean and deviation, rate, probability, or median and scale. Integers
// are in [low, low + range); range 0 means any 64 bits.
struct RandomFill {
  Distribution distribution;
  double a = 0, b = 0;
  uint64_t range = 0;
  int64_t low = 0;

  bool wide(DType out) const;
  // Random blocks drawn for this many elements.
  uint64_t blocks(DType out, int64_t elements) const;
};
// The same for the functions below that draw 32 bits per element.
inline uint64_t blocks_for_32bit(int64_t elements) { return static_cast<uint64_t>(elements + 3) / 4; }

// Views are contiguous. `state` is the generator's state at the call's first block.
bool random_fill(const OpBinding& binding, Device& device, const View& out, const RandomFill& fill, PhiloxState state);
bool bernoulli_tensor(const OpBinding& binding, Device& device, const View& out, const View& p, PhiloxState state);
bool dropout(const OpBinding& binding, Device& device, const View& out, const View& mask, const View& input, double p,
             PhiloxState state);
bool dropout_backward(const OpBinding& binding, Device& device, const View& out, const View& grad, const View& mask,
                      double scale);
bool rrelu_with_noise(const OpBinding& binding, Device& device, const View& out, const View& noise, const View& self,
                      double lower, double upper, PhiloxState state);

// These draw one block per element.
bool standard_gamma(const OpBinding& binding, Device& device, const View& out, const View& shape, PhiloxState state);
bool poisson(const OpBinding& binding, Device& device, const View& out, const View& rate, PhiloxState state);
bool binomial(const OpBinding& binding, Device& device, const View& out, const View& count, const View& prob,
              PhiloxState state);

// Samples with replacement. `out` has one row of samples per row of weights, or one row for a vector.
bool multinomial(const OpBinding& binding, Device& device, const View& out, const View& weights, PhiloxState state);

}  // namespace hp::ops
