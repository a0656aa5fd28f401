#include "ops/random.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/DistributionTemplates.h>
#include <ATen/ops/_standard_gamma.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/multinomial_native.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/view_as_real.h>

#include <cmath>

#include "ops/op_helpers.h"
#include "runtime/generator.h"

namespace hp::torch_adapter::ops {
namespace {

using hp::ops::Distribution;
using hp::ops::RandomFill;
using MaybeGenerator = std::optional<at::Generator>;

bool real_floating(const Tensor& tensor) { return at::isFloatingType(tensor.scalar_type()); }

// Fills in logical order, for any strides.
bool fill(const Overload& overload, const Tensor& self, const RandomFill& filling, const MaybeGenerator& generator) {
  const DType dtype = to_core(self.scalar_type());
  if (dtype == DType::kNone || is_complex(dtype)) return false;
  if (self.numel() == 0) return true;
  at::assert_no_internal_overlap(self);
  const ContiguousOutput out(self);
  const PhiloxState state = take_blocks(generator, self.device().index(), filling.blocks(dtype, self.numel()));
  if (!hp::ops::random_fill(overload, device_holding(self), view(out.tensor()), filling, state)) return false;
  out.finish();
  return true;
}

// Parameters that torch rejects go to the CPU tier, which raises torch's error.

bool uniform(const Overload& overload, const Tensor& self, double from, double to, const MaybeGenerator& generator) {
  if (self.is_complex() && !self.is_conj()) return uniform(overload, at::view_as_real(self), from, to, generator);
  if (!real_floating(self) || !(from <= to) || !std::isfinite(to - from)) return false;
  // torch rejects ranges beyond the limits of the dtype.
  if (self.scalar_type() == at::kHalf && !(std::abs(from) <= 65504 && std::abs(to) <= 65504 && to - from <= 65504)) {
    return false;
  }
  if (self.scalar_type() != at::kDouble && !(std::abs(from) <= 3e38 && std::abs(to) <= 3e38 && to - from <= 3e38)) {
    return false;
  }
  return fill(overload, self, {Distribution::kUniform, from, to}, generator);
}

bool normal(const Overload& overload, const Tensor& self, double mean, double std, const MaybeGenerator& generator) {
  if (!(std >= 0)) return false;
  if (self.is_complex() && !self.is_conj()) {
    // The real and the imaginary part each have half of the variance.
    return normal(overload, at::view_as_real(self), mean, std / std::sqrt(2.0), generator);
  }
  return real_floating(self) && fill(overload, self, {Distribution::kNormal, mean, std}, generator);
}

bool log_normal(const Overload& overload, const Tensor& self, double mean, double std,
                const MaybeGenerator& generator) {
  return std > 0 && real_floating(self) && fill(overload, self, {Distribution::kLogNormal, mean, std}, generator);
}

bool exponential(const Overload& overload, const Tensor& self, double lambd, const MaybeGenerator& generator) {
  return lambd > 0 && std::isfinite(lambd) && real_floating(self) &&
         fill(overload, self, {Distribution::kExponential, lambd}, generator);
}

bool geometric(const Overload& overload, const Tensor& self, double p, const MaybeGenerator& generator) {
  return p > 0 && p < 1 && self.scalar_type() != at::kBool &&
         fill(overload, self, {Distribution::kGeometric, p}, generator);
}

bool cauchy(const Overload& overload, const Tensor& self, double median, double sigma,
            const MaybeGenerator& generator) {
  return sigma > 0 && real_floating(self) && fill(overload, self, {Distribution::kCauchy, median, sigma}, generator);
}

bool bernoulli(const Overload& overload, const Tensor& self, double p, const MaybeGenerator& generator) {
  return p >= 0 && p <= 1 && fill(overload, self, {Distribution::kBernoulli, p}, generator);
}

// ---- Integers: torch's own checks compute the range; KeepRange captures it.

thread_local std::optional<RandomFill> found_range;

template <class Generator>
struct KeepRange {
  void operator()(at::TensorIteratorBase&, uint64_t range, int64_t low, const MaybeGenerator&) const {
    found_range = RandomFill{Distribution::kInteger, 0, 0, range, low};
  }
  void operator()(at::TensorIteratorBase&, const MaybeGenerator&) const {
    found_range = RandomFill{Distribution::kInteger};
  }
};

bool random(const Overload& overload, const Tensor& self, int64_t from, std::optional<int64_t> to,
            const MaybeGenerator& generator) {
  Tensor checked = self;
  found_range.reset();
  at::native::templates::random_from_to_impl<KeepRange, PhiloxGenerator>(checked, from, to, generator);
  return !found_range || fill(overload, self, *found_range, generator);
}
bool random(const Overload& overload, const Tensor& self, int64_t to, const MaybeGenerator& generator) {
  return random(overload, self, 0, to, generator);
}
bool random(const Overload& overload, const Tensor& self, const MaybeGenerator& generator) {
  return random(overload, self, 0, std::nullopt, generator);
}

// ---- Normal distribution with tensors for mean or deviation: composed, as in torch

template <class Generator>
struct FillNormal {
  void operator()(const Tensor& self, double mean, double std, MaybeGenerator generator) const {
    self.normal_(mean, std, std::move(generator));
  }
};

template <class Mean, class Std>
std::optional<Tensor> normal(const Overload& overload, const Mean& mean, const Std& std,
                             const MaybeGenerator& generator) {
  return at::native::templates::normal_impl<FillNormal, PhiloxGenerator>(mean, std, generator);
}
template <class Mean, class Std>
bool normal_to(Tensor& out, const Mean& mean, const Std& std, const MaybeGenerator& generator) {
  at::native::templates::normal_out_impl<FillNormal, PhiloxGenerator>(out, mean, std, generator);
  return true;
}
bool normal(const Overload&, const Tensor& mean, double std, const MaybeGenerator& generator, Tensor& out) {
  return normal_to(out, mean, std, generator);
}
bool normal(const Overload&, double mean, const Tensor& std, const MaybeGenerator& generator, Tensor& out) {
  return normal_to(out, mean, std, generator);
}
bool normal(const Overload&, const Tensor& mean, const Tensor& std, const MaybeGenerator& generator, Tensor& out) {
  return normal_to(out, mean, std, generator);
}

// ---- Distributions with tensor parameters

bool bernoulli_tensor(const Overload& overload, const Tensor& self, const Tensor& p, const MaybeGenerator& generator) {
  if (!real_floating(p) || self.is_complex()) return false;
  if (self.numel() == 0) return true;
  at::assert_no_internal_overlap(self);
  const Tensor spread = p.expand(self.sizes()).contiguous();
  const ContiguousOutput out(self);
  const PhiloxState state = take_blocks(generator, self.device().index(), hp::ops::blocks_for_32bit(self.numel()));
  if (!hp::ops::bernoulli_tensor(overload, device_holding(self), view(out.tensor()), view(spread), state)) return false;
  out.finish();
  return true;
}
bool bernoulli_tensor(const Overload& overload, const Tensor& self, const MaybeGenerator& generator, Tensor& out) {
  if (!real_floating(self) || out.is_complex()) return false;
  out.resize_(self.sizes());  // without a warning, as in torch
  return bernoulli_tensor(overload, out, self, generator);
}

using Sampler = bool (*)(const OpBinding&, Device&, const View&, const View&, PhiloxState);

std::optional<Tensor> sample(const Overload& overload, Sampler sampler, const Tensor& parameter,
                             const MaybeGenerator& generator) {
  if (!real_floating(parameter)) return std::nullopt;
  const Tensor dense = parameter.contiguous();
  Tensor out = empty(dense.sizes(), dense.scalar_type(), dense.device().index());
  if (out.numel() == 0) return out;
  const PhiloxState state = take_blocks(generator, out.device().index(), static_cast<uint64_t>(out.numel()));
  if (!sampler(overload, device_holding(out), view(out), view(dense), state)) return std::nullopt;
  return out;
}

std::optional<Tensor> standard_gamma(const Overload& overload, const Tensor& shape, const MaybeGenerator& generator) {
  return sample(overload, &hp::ops::standard_gamma, shape, generator);
}
std::optional<Tensor> poisson(const Overload& overload, const Tensor& rate, const MaybeGenerator& generator) {
  return sample(overload, &hp::ops::poisson, rate, generator);
}
std::optional<Tensor> sample_dirichlet(const Overload&, const Tensor& concentration, const MaybeGenerator& generator) {
  if (!real_floating(concentration) || concentration.dim() == 0) return std::nullopt;
  const Tensor gamma = at::_standard_gamma(concentration, generator);
  return gamma.div(gamma.sum(-1, true));
}
std::optional<Tensor> binomial(const Overload& overload, const Tensor& count, const Tensor& prob,
                               const MaybeGenerator& generator) {
  if (!real_floating(count) || count.scalar_type() != prob.scalar_type()) return std::nullopt;
  const auto sizes = at::infer_size(count.sizes(), prob.sizes());
  const Tensor n = count.expand(sizes).contiguous(), p = prob.expand(sizes).contiguous();
  Tensor out = empty(sizes, count.scalar_type(), count.device().index());
  if (out.numel() == 0) return out;
  const PhiloxState state = take_blocks(generator, out.device().index(), static_cast<uint64_t>(out.numel()));
  if (!hp::ops::binomial(overload, device_holding(out), view(out), view(n), view(p), state)) return std::nullopt;
  return out;
}

// ---- Dropout and randomized leaky ReLU

using TwoTensors = std::tuple<Tensor, Tensor>;

std::optional<TwoTensors> dropout(const Overload& overload, const Tensor& input, double p, std::optional<bool> train) {
  if (!real_floating(input) || !(p >= 0 && p <= 1)) return std::nullopt;
  if (input.numel() == 0 || p == 0 || !train.value_or(true)) {
    return TwoTensors(input.clone(), at::ones_like(input, input.options().dtype(at::kBool)));
  }
  Tensor out = at::empty_like(input), mask = at::empty_like(input, input.options().dtype(at::kBool));
  const ContiguousOutput dense_out(out), dense_mask(mask);
  const Tensor from = input.contiguous();
  const PhiloxState state = take_blocks(std::nullopt, input.device().index(), hp::ops::blocks_for_32bit(input.numel()));
  if (!hp::ops::dropout(overload, device_holding(input), view(dense_out.tensor()), view(dense_mask.tensor()),
                        view(from), p, state)) {
    return std::nullopt;
  }
  dense_out.finish();
  dense_mask.finish();
  return TwoTensors(std::move(out), std::move(mask));
}

std::optional<Tensor> dropout_backward(const Overload& overload, const Tensor& grad_output, const Tensor& mask,
                                       double scale) {
  if (mask.scalar_type() != at::kBool || mask.sizes() != grad_output.sizes()) return std::nullopt;
  // Integers become floating-point, as in torch.
  if (!real_floating(grad_output)) return at::mul(grad_output, at::mul(mask.to(grad_output.scalar_type()), scale));
  // With one dense layout the order of elements does not matter.
  const bool same_strides = grad_output.strides() == mask.strides() && mask.is_non_overlapping_and_dense();
  const Tensor grad = same_strides ? grad_output : grad_output.contiguous(),
               dense_mask = same_strides ? mask : mask.contiguous();
  Tensor out = empty_strided(grad.sizes(), grad.strides(), grad.scalar_type(), grad.device().index());
  if (out.numel() == 0) return out;
  if (!hp::ops::dropout_backward(overload, device_holding(grad), view(out), view(grad), view(dense_mask), scale)) {
    return std::nullopt;
  }
  return out;
}

bool rrelu_with_noise(const Overload& overload, const Tensor& self, Tensor& noise, const at::Scalar& lower,
                      const at::Scalar& upper, bool training, const MaybeGenerator& generator, Tensor& out) {
  const double low = lower.toDouble(), high = upper.toDouble();
  if (!real_floating(self) || noise.scalar_type() != self.scalar_type() || noise.sizes() != self.sizes()) return false;
  at::native::resize_output(out, self.sizes());
  if (out.scalar_type() != self.scalar_type()) return false;
  if (!training) {
    at::leaky_relu_out(out, self, (low + high) / 2);
    return true;
  }
  if (self.numel() == 0) return true;
  const Tensor from = self.contiguous();
  const ContiguousOutput dense_out(out), dense_noise(noise);
  const uint64_t blocks = RandomFill{Distribution::kUniform}.blocks(to_core(self.scalar_type()), self.numel());
  const PhiloxState state = take_blocks(generator, self.device().index(), blocks);
  if (!hp::ops::rrelu_with_noise(overload, device_holding(self), view(dense_out.tensor()), view(dense_noise.tensor()),
                                 view(from), low, high, state)) {
    return false;
  }
  dense_out.finish();
  dense_noise.finish();
  return true;
}
std::optional<Tensor> rrelu_with_noise(const Overload& overload, const Tensor& self, Tensor& noise,
                                       const at::Scalar& lower, const at::Scalar& upper, bool training,
                                       const MaybeGenerator& generator) {
  Tensor out = at::empty_like(self);
  if (!rrelu_with_noise(overload, self, noise, lower, upper, training, generator, out)) return std::nullopt;
  return out;
}
bool rrelu_with_noise(const Overload& overload, Tensor& self, Tensor& noise, const at::Scalar& lower,
                      const at::Scalar& upper, bool training, const MaybeGenerator& generator) {
  return rrelu_with_noise(overload, self, noise, lower, upper, training, generator, self);
}

// ---- Categories and permutations

bool multinomial(const Overload& overload, const Tensor& self, int64_t num_samples, bool replacement,
                 const MaybeGenerator& generator, Tensor& out) {
  if (!real_floating(self) || self.dim() == 0 || self.dim() > 2 || self.size(-1) == 0 || num_samples <= 0 ||
      out.scalar_type() != at::kLong || (!replacement && num_samples > self.size(-1))) {
    return false;  // the CPU tier raises torch's error
  }
  if (!replacement || num_samples == 1) {
    at::native::multinomial_out(self, num_samples, replacement, generator, out);
    return true;
  }
  std::vector<int64_t> sizes(self.sizes().begin(), self.sizes().end() - 1);
  sizes.push_back(num_samples);
  at::native::resize_output(out, sizes);
  if (out.numel() == 0) return true;
  const Tensor valid = self.amax().lt(INFINITY).logical_and(self.amin().ge(0));
  if (!valid.item<bool>()) return false;
  if (self.dim() == 1 ? self.sum().eq(0).item<bool>() : self.sum(1).eq(0).any().item<bool>()) return false;
  const Tensor weights = self.contiguous();
  const ContiguousOutput dense(out);
  const PhiloxState state = take_blocks(generator, self.device().index(), hp::ops::blocks_for_32bit(out.numel()));
  if (!hp::ops::multinomial(overload, device_holding(self), view(dense.tensor()), view(weights), state)) return false;
  dense.finish();
  return true;
}
std::optional<Tensor> multinomial(const Overload& overload, const Tensor& self, int64_t num_samples, bool replacement,
                                  const MaybeGenerator& generator) {
  Tensor out = empty({0}, at::kLong, self.device().index());
  if (!multinomial(overload, self, num_samples, replacement, generator, out)) return std::nullopt;
  return out;
}

// Fisher-Yates, on the host since each swap depends on those before it. Element i uses 32-bit random number i.
void shuffle(int64_t* values, int64_t n, PhiloxState state) {
  for (int64_t i = 0; i < n; ++i) values[i] = i;
  PhiloxBlock block{};
  for (int64_t i = 0; i + 1 < n; ++i) {
    if (i % 4 == 0) block = philox4x32(state.seed, state.offset + static_cast<uint64_t>(i / 4), 0);
    const auto left = static_cast<uint64_t>(n - i);
    std::swap(values[i], values[i + static_cast<int64_t>(block[i % 4] * left >> 32)]);
  }
}

bool randperm(const Overload& overload, int64_t n, const MaybeGenerator& generator, Tensor& out) {
  if (n < 0 || n > UINT32_MAX) return false;
  const at::ScalarType dtype = out.scalar_type();
  // torch's own check that the dtype can hold the numbers.
  const int64_t most = dtype == at::kByte    ? 255
                       : dtype == at::kChar  ? 127
                       : dtype == at::kShort ? 32767
                       : dtype == at::kInt   ? INT32_MAX
                       : dtype == at::kLong  ? INT64_MAX
                                             : 0;
  if (n > most) return false;
  at::native::resize_output(out, {n});
  if (n == 0) return true;
  const PhiloxState state = take_blocks(generator, out.device().index(), hp::ops::blocks_for_32bit(n));
  Tensor host = at::detail::empty_cpu({n}, at::kLong, false, std::nullopt);
  shuffle(static_cast<int64_t*>(host.mutable_data_ptr()), n, state);
  PortableScope scope(overload);
  copy_tensor(out, host, false);
  return scope.done();
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/random.inc"
