// Random numbers. They are not those of Paddle's CPU, but the same for the same seed, on every device.
#include "../../ops/random.h"

#include <cmath>
#include <numeric>

#include "../../ops/sort.h"
#include "../generator.h"
#include "../parts.h"

namespace hp::paddle_adapter::ops {
namespace {

using hp::ops::Distribution;
using hp::ops::RandomFill;

bool fill(Call& call, const Service& service, const View& out, const RandomFill& filling, int64_t seed) {
  if (out.numel() == 0) return true;
  return hp::ops::random_fill(service, call.device, out, filling,
                              take_blocks(call, filling.blocks(out.dtype, out.numel()), seed));
}
bool fill(Call& call, const View& out, const RandomFill& filling, int64_t seed = 0) {
  return fill(call, call.service(), out, filling, seed);
}

bool real(const Call& call) { return is_float(to_core(call.kernel.dtype)) && call.service().able(); }

// An output whose sizes are an attribute.
View sized(Call& call, int shape) {
  DenseTensor& out = *call.output(0);
  out.Resize(common::make_ddim(call.integers(shape)));
  call.context.Alloc(&out, call.kernel.dtype);
  return view(out);
}

// Attributes: shape, mean, std, seed, dtype.
bool gaussian(Call& call) {
  return real(call) && call.real(2) >= 0 &&
         fill(call, sized(call, 0), {Distribution::kNormal, call.real(1), call.real(2)}, call.integer(3));
}
// Attributes: mean, std, seed.
bool gaussian_inplace(Call& call) {
  return real(call) && call.real(1) >= 0 &&
         fill(call, call.allocate(0), {Distribution::kNormal, call.real(0), call.real(1)}, call.integer(2));
}

bool in_order(double low, double high) { return low <= high && std::isfinite(high - low); }
// Attributes: shape, dtype, min, max, seed.
bool uniform(Call& call) {
  return real(call) && in_order(call.real(2), call.real(3)) &&
         fill(call, sized(call, 0), {Distribution::kUniform, call.real(2), call.real(3)}, call.integer(4));
}
// Attributes: min, max, seed, diag_num, diag_step, diag_val.
bool uniform_inplace(Call& call) {
  return real(call) && in_order(call.real(0), call.real(1)) && call.integer(3) == 0 &&
         fill(call, call.allocate(0), {Distribution::kUniform, call.real(0), call.real(1)}, call.integer(2));
}
// What was there before does not matter.
bool gaussian_inplace_grad(Call& call) { return real(call) && zero(call.device, call.allocate(0)) && decomposed(call); }
bool uniform_inplace_grad(Call& call) { return gaussian_inplace_grad(call); }

// By the inverse of the distribution. Attributes: shape, mean, std, seed, a, b, dtype; a and b are where it is cut off.
bool truncated_gaussian_random(Call& call) {
  static Step uniform_numbers("uniform");
  static PointwiseStep inverse("erfinv"), scale("scale"), clamp("clamp");
  const double mean = call.real(1), deviation = call.real(2), low = call.real(4), high = call.real(5);
  if (!real(call) || !(deviation > 0) || !(low < high)) return false;
  const auto share = [&](double cut) { return std::erf((cut - mean) / deviation / std::sqrt(2.0)); };
  const View out = sized(call, 0);
  return fill(call, uniform_numbers.on(call.device), out, {Distribution::kUniform, share(low), share(high)},
              call.integer(3)) &&
         inverse(call.device, out, {out}) && scale(call.device, out, {out}, {std::sqrt(2.0) * deviation, mean}, 1) &&
         clamp(call.device, out, {out}, {low, high}) && decomposed(call);
}

// Attributes: low, high, shape, dtype.
bool randint(Call& call) {
  const int64_t low = call.integer(0), high = call.integer(1);
  if (!is_integer(to_core(call.kernel.dtype)) || !call.service().able() || high <= low) return false;
  return fill(call, sized(call, 2), {Distribution::kInteger, 0, 0, static_cast<uint64_t>(high - low), low});
}

bool exponential(Call& call) {
  return real(call) && call.real(0) > 0 && fill(call, call.allocate(0), {Distribution::kExponential, call.real(0)});
}

bool bernoulli(Call& call) {
  if (!real(call) || !call.plain()) return false;
  const View p = call.view_of(0), out = call.allocate(0);
  return out.numel() == 0 || hp::ops::bernoulli_tensor(call.service(), call.device, out, p,
                                                       take_blocks(call, hp::ops::narrow_blocks(out.numel())));
}

using Sampler = bool (*)(const Service&, Device&, const View&, const View&, PhiloxState);
bool sample(Call& call, Sampler sampler) {
  if (!real(call) || !call.plain()) return false;
  const View parameter = call.view_of(0), out = call.allocate(0);
  return out.numel() == 0 ||
         sampler(call.service(), call.device, out, parameter, take_blocks(call, static_cast<uint64_t>(out.numel())));
}
bool poisson(Call& call) { return sample(call, &hp::ops::poisson); }
bool standard_gamma(Call& call) { return sample(call, &hp::ops::standard_gamma); }

// Inputs: how often, and the probability; the output has whole numbers.
bool binomial(Call& call) {
  static Step copying("copy");
  if (!real(call) || !call.plain() || call.input(0)->dims() != call.input(1)->dims()) return false;
  const View count = call.view_of(0), out = call.allocate(0);
  if (out.numel() == 0) return true;
  const Temporary numbers(call.device, count.dtype, count.ndim, count.sizes);
  return hp::ops::binomial(call.service(), call.device, numbers, count, call.view_of(1),
                           take_blocks(call, static_cast<uint64_t>(out.numel()))) &&
         copy(copying.on(call.device), call.device, out, numbers);
}

// Fisher and Yates, on the host, since each exchange depends on those before it. Element i is exchanged by its word.
bool randperm(Call& call) {
  static Step copying("copy");
  const int64_t n = call.integer(0);
  const DType dtype = to_core(call.kernel.dtype);
  if (n < 0 || n > UINT32_MAX || dtype == DType::kNone || !copying.on(call.device).able()) return false;
  DenseTensor& out = *call.output(0);
  out.Resize({n});
  call.context.Alloc(&out, call.kernel.dtype);
  if (n == 0) return true;
  const PhiloxState at = take_blocks(call, hp::ops::narrow_blocks(n));
  std::vector<int64_t> values(n);
  std::iota(values.begin(), values.end(), 0);
  PhiloxBlock block{};
  for (int64_t i = 0; i + 1 < n; ++i) {
    if (i % 4 == 0) block = philox4x32(at.seed, at.offset + static_cast<uint64_t>(i / 4), 0);
    const auto left = static_cast<uint64_t>(n - i);
    std::swap(values[i], values[i + static_cast<int64_t>(block[i % 4] * left >> 32)]);
  }
  const int64_t sizes[] = {n};
  const Temporary numbers(call.device, DType::kI64, 1, sizes);
  Stream& stream = current_stream(call.device);
  PortableScope scope(call.service());
  call.device.copy_to_device(numbers.view().data, values.data(), values.size() * sizeof(int64_t), stream);
  stream.synchronize();
  return copy(copying.on(call.device), call.device, view(out), numbers) && scope.done();
}

// Attributes: num_samples, replacement. Without replacement, those that win a race of exponential times.
bool multinomial(Call& call) {
  static Step race("exponential"), best("topk");
  static PointwiseStep divide("div");
  const DenseTensor& x = *call.input(0);
  const int64_t samples = call.integer(0);
  if (!real(call) || !call.plain() || x.numel() == 0 || x.dims().size() == 0 || x.dims().size() > 2 || samples <= 0) {
    return false;
  }
  const int last = x.dims().size() - 1;
  if (call.attr<bool>(1)) {
    const View weights = call.view_of(0), out = call.allocate(0);
    return hp::ops::multinomial(call.service(), call.device, out, weights,
                                take_blocks(call, hp::ops::narrow_blocks(out.numel())));
  }
  if (samples > x.dims()[last]) return false;
  const View weights = call.view_of(0), out = call.allocate(0);
  const Temporary times(call.device, weights.dtype, weights.ndim, weights.sizes);
  const Temporary values(call.device, weights.dtype, out.ndim, out.sizes);
  return fill(call, race.on(call.device), times, {Distribution::kExponential, 1}, 0) &&
         divide(call.device, times, {weights, times}) &&
         hp::ops::topk(best.on(call.device), call.device, values, out, times, samples, last, true, true) &&
         decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/random.inc"
