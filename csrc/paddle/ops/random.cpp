// Random numbers. A seed gives the same numbers on every device, but not those of Paddle's CPU kernels.
#include "ops/random.h"

#include <cmath>
#include <numeric>

#include "dispatch/composition.h"
#include "ops/generator.h"
#include "ops/sort.h"

namespace hp::paddle_adapter::ops {
namespace {

using hp::ops::Distribution;
using hp::ops::RandomFill;

bool fill(Call& call, const OpBinding& binding, const View& out, const RandomFill& distribution, int64_t seed) {
  if (out.numel() == 0) return true;
  return hp::ops::random_fill(binding, call.device, out, distribution,
                              take_blocks(call, distribution.blocks(out.dtype, out.numel()), seed));
}
bool fill(Call& call, const View& out, const RandomFill& distribution, int64_t seed = 0) {
  return fill(call, call.binding(), out, distribution, seed);
}

bool supports_random(const Call& call) { return is_float(to_core(call.kernel.dtype)) && call.binding().can_serve(); }

// Allocates the output with the sizes of attribute `shape`.
View allocate_shape(Call& call, int shape) {
  DenseTensor& out = *call.output(0);
  out.Resize(common::make_ddim(call.integers(shape)));
  call.context.Alloc(&out, call.kernel.dtype);
  return view(out);
}

// Attributes: shape, mean, std, seed, dtype.
bool gaussian(Call& call) {
  return supports_random(call) && call.real(2) >= 0 &&
         fill(call, allocate_shape(call, 0), {Distribution::kNormal, call.real(1), call.real(2)}, call.integer(3));
}
// Attributes: mean, std, seed.
bool gaussian_inplace(Call& call) {
  return supports_random(call) && call.real(1) >= 0 &&
         fill(call, call.allocate(0), {Distribution::kNormal, call.real(0), call.real(1)}, call.integer(2));
}

bool is_range(double low, double high) { return low <= high && std::isfinite(high - low); }
// Attributes: shape, dtype, min, max, seed.
bool uniform(Call& call) {
  return supports_random(call) && is_range(call.real(2), call.real(3)) &&
         fill(call, allocate_shape(call, 0), {Distribution::kUniform, call.real(2), call.real(3)}, call.integer(4));
}
// Attributes: min, max, seed, diag_num, diag_step, diag_val.
bool uniform_inplace(Call& call) {
  return supports_random(call) && is_range(call.real(0), call.real(1)) && call.integer(3) == 0 &&
         fill(call, call.allocate(0), {Distribution::kUniform, call.real(0), call.real(1)}, call.integer(2));
}
// The overwritten values have a zero gradient.
bool gaussian_inplace_grad(Call& call) {
  return supports_random(call) && zero(call.device, call.allocate(0)) && count_decomposed(call);
}
bool uniform_inplace_grad(Call& call) { return gaussian_inplace_grad(call); }

// Inverse transform sampling. Attributes: shape, mean, std, seed, a, b (the bounds), dtype.
bool truncated_gaussian_random(Call& call) {
  static StandardOp uniform_numbers("uniform");
  static PointwiseOp inverse("erfinv"), scale("scale"), clamp("clamp");
  const double mean = call.real(1), deviation = call.real(2), low = call.real(4), high = call.real(5);
  if (!supports_random(call) || !(deviation > 0) || !(low < high)) return false;
  const auto cdf = [&](double cut) { return std::erf((cut - mean) / deviation / std::sqrt(2.0)); };
  const View out = allocate_shape(call, 0);
  return fill(call, uniform_numbers.on(call.device), out, {Distribution::kUniform, cdf(low), cdf(high)},
              call.integer(3)) &&
         inverse(call.device, out, {out}) && scale(call.device, out, {out}, {std::sqrt(2.0) * deviation, mean}, 1) &&
         clamp(call.device, out, {out}, {low, high}) && count_decomposed(call);
}

// Attributes: low, high, shape, dtype.
bool randint(Call& call) {
  const int64_t low = call.integer(0), high = call.integer(1);
  if (!is_integer(to_core(call.kernel.dtype)) || !call.binding().can_serve() || high <= low) return false;
  return fill(call, allocate_shape(call, 2), {Distribution::kInteger, 0, 0, static_cast<uint64_t>(high - low), low});
}

bool exponential(Call& call) {
  return supports_random(call) && call.real(0) > 0 &&
         fill(call, call.allocate(0), {Distribution::kExponential, call.real(0)});
}

bool bernoulli(Call& call) {
  if (!supports_random(call) || !call.inputs_ready()) return false;
  const View p = call.view_of(0), out = call.allocate(0);
  return out.numel() == 0 || hp::ops::bernoulli_tensor(call.binding(), call.device, out, p,
                                                       take_blocks(call, hp::ops::blocks_for_32bit(out.numel())));
}

using Sampler = bool (*)(const OpBinding&, Device&, const View&, const View&, PhiloxState);
bool sample(Call& call, Sampler sampler) {
  if (!supports_random(call) || !call.inputs_ready()) return false;
  const View parameter = call.view_of(0), out = call.allocate(0);
  return out.numel() == 0 ||
         sampler(call.binding(), call.device, out, parameter, take_blocks(call, static_cast<uint64_t>(out.numel())));
}
bool poisson(Call& call) { return sample(call, &hp::ops::poisson); }
bool standard_gamma(Call& call) { return sample(call, &hp::ops::standard_gamma); }

// Inputs: count, prob. The output is of an integer dtype.
bool binomial(Call& call) {
  if (!supports_random(call) || !call.inputs_ready() || call.input(0)->dims() != call.input(1)->dims()) return false;
  const View count = call.view_of(0), out = call.allocate(0);
  if (out.numel() == 0) return true;
  const Temporary numbers(call.device, count.dtype, count.ndim, count.sizes);
  return hp::ops::binomial(call.binding(), call.device, numbers, count, call.view_of(1),
                           take_blocks(call, static_cast<uint64_t>(out.numel()))) &&
         copy(copy_op.on(call.device), call.device, out, numbers);
}

// A Fisher-Yates shuffle on the host, since each swap depends on those before it. Swap i uses Philox word i.
bool randperm(Call& call) {
  const int64_t n = call.integer(0);
  const DType dtype = to_core(call.kernel.dtype);
  if (n < 0 || n > UINT32_MAX || dtype == DType::kNone || !copy_op.on(call.device).can_serve()) return false;
  DenseTensor& out = *call.output(0);
  out.Resize({n});
  call.context.Alloc(&out, call.kernel.dtype);
  if (n == 0) return true;
  const PhiloxState philox = take_blocks(call, hp::ops::blocks_for_32bit(n));
  std::vector<int64_t> values(n);
  std::iota(values.begin(), values.end(), 0);
  PhiloxBlock block{};
  for (int64_t i = 0; i + 1 < n; ++i) {
    if (i % 4 == 0) block = philox4x32(philox.seed, philox.offset + static_cast<uint64_t>(i / 4), 0);
    const auto remaining = static_cast<uint64_t>(n - i);
    std::swap(values[i], values[i + static_cast<int64_t>(block[i % 4] * remaining >> 32)]);
  }
  const int64_t sizes[] = {n};
  const Temporary numbers(call.device, DType::kI64, 1, sizes);
  Stream& stream = current_stream(call.device);
  PortableScope scope(call.binding());
  call.device.copy_to_device(numbers.view().data, values.data(), values.size() * sizeof(int64_t), stream);
  stream.synchronize();
  return copy(copy_op.on(call.device), call.device, view(out), numbers) && scope.done();
}

// Attributes: num_samples, replacement. Without replacement: the top k of weight / (exponential random number).
bool multinomial(Call& call) {
  static StandardOp race("exponential"), best("topk");
  static PointwiseOp divide("div");
  const DenseTensor& x = *call.input(0);
  const int64_t samples = call.integer(0);
  if (!supports_random(call) || !call.inputs_ready() || x.numel() == 0 || x.dims().size() == 0 || x.dims().size() > 2 ||
      samples <= 0) {
    return false;
  }
  const int last = x.dims().size() - 1;
  if (call.attr<bool>(1)) {
    const View weights = call.view_of(0), out = call.allocate(0);
    return hp::ops::multinomial(call.binding(), call.device, out, weights,
                                take_blocks(call, hp::ops::blocks_for_32bit(out.numel())));
  }
  if (samples > x.dims()[last]) return false;
  const View weights = call.view_of(0), out = call.allocate(0);
  const Temporary times(call.device, weights.dtype, weights.ndim, weights.sizes);
  const Temporary values(call.device, weights.dtype, out.ndim, out.sizes);
  return fill(call, race.on(call.device), times, {Distribution::kExponential, 1}, 0) &&
         divide(call.device, times, {weights, times}) &&
         hp::ops::topk(best.on(call.device), call.device, values, out, times, samples, last, true, true) &&
         count_decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/random.inc"
