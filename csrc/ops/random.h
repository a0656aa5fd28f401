// Random numbers. The rule by which a generator's state gives each element is in kernels/random.c.
#pragma once

#include "../core/philox.h"
#include "../core/service.h"

namespace hp::ops {

// Numbered as in kernels/random.c.
enum class Distribution { kUniform, kNormal, kLogNormal, kExponential, kGeometric, kCauchy, kBernoulli, kInteger };

// What a tensor is filled with. `a` and `b` are the parameters: the ends, mean and deviation, rate, probability, median
// and scale. Integers are `range` of them from `low` on; a range of 0 means any 64 bits.
struct RandomFill {
  Distribution distribution;
  double a = 0, b = 0;
  uint64_t range = 0;
  int64_t low = 0;

  bool wide(DType out) const;
  // Blocks of the generator that this many elements take.
  uint64_t blocks(DType out, int64_t elements) const;
};
// The same for everything else below that draws: 32 bits an element, or a block each for what may reject samples.
inline uint64_t narrow_blocks(int64_t elements) { return static_cast<uint64_t>(elements + 3) / 4; }

// Views are contiguous, and `at` is where the call's blocks begin.
bool random_fill(const Service& service, Device& device, const View& out, const RandomFill& fill, PhiloxState at);
bool bernoulli_tensor(const Service& service, Device& device, const View& out, const View& p, PhiloxState at);
bool dropout(const Service& service, Device& device, const View& out, const View& mask, const View& input, double p,
             PhiloxState at);
bool dropout_backward(const Service& service, Device& device, const View& out, const View& grad, const View& mask,
                      double scale);
bool rrelu_with_noise(const Service& service, Device& device, const View& out, const View& noise, const View& self,
                      double lower, double upper, PhiloxState at);

// One block an element.
bool standard_gamma(const Service& service, Device& device, const View& out, const View& shape, PhiloxState at);
bool poisson(const Service& service, Device& device, const View& out, const View& rate, PhiloxState at);
bool binomial(const Service& service, Device& device, const View& out, const View& count, const View& prob,
              PhiloxState at);

// With replacement; `out` has a row of samples for each row of weights, or one row for a vector.
bool multinomial(const Service& service, Device& device, const View& out, const View& weights, PhiloxState at);

}  // namespace hp::ops
