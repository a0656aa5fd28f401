#include "../../ops/reduction.h"

#include <cmath>

#include "../parts.h"

namespace hp::paddle_adapter::ops {
namespace {

// Attributes are (dims, ..., keep_dim); the output's sizes are settled.
bool reduce(Call& call, hp::ops::Reducer& reducer, const std::vector<int64_t>& dims, bool keepdim) {
  const DenseTensor& x = *call.input(0);
  if (!call.plain() || x.numel() == 0 || x.dims().size() > kMaxDimensions) return false;
  const View out = call.allocate(0);
  return reducer(call.service(), call.device, out, view(x), mask_of(dims, x.dims().size()), keepdim);
}

bool sum(Call& call) { return reduce(call, hp::ops::sum, call.integers(0), call.attr<bool>(2)); }
bool mean(Call& call) { return reduce(call, hp::ops::mean, call.integers(0), call.attr<bool>(1)); }
bool mean_all(Call& call) { return reduce(call, hp::ops::mean, {}, false); }

std::vector<int64_t> dims_or_all(const Call& call, int dims, int all) {
  return call.attr<bool>(all) ? std::vector<int64_t>{} : call.integers(dims);
}
// Attributes: dims, keep_dim, reduce_all, out_dtype.
bool sum_raw(Call& call) { return reduce(call, hp::ops::sum, dims_or_all(call, 0, 2), call.attr<bool>(1)); }
bool nansum(Call& call) { return reduce(call, hp::ops::nansum, call.integers(0), call.attr<bool>(2)); }
// Attributes: dims, keep_dim, reduce_all.
bool mean_raw(Call& call) { return reduce(call, hp::ops::mean, dims_or_all(call, 0, 2), call.attr<bool>(1)); }
bool prod(Call& call) { return reduce(call, hp::ops::prod, dims_or_all(call, 0, 2), call.attr<bool>(1)); }
// Attributes: dims, keep_dim.
bool max(Call& call) { return reduce(call, hp::ops::amax, call.integers(0), call.attr<bool>(1)); }
bool min(Call& call) { return reduce(call, hp::ops::amin, call.integers(0), call.attr<bool>(1)); }
bool amax(Call& call) { return max(call); }
bool amin(Call& call) { return min(call); }
bool any(Call& call) { return reduce(call, hp::ops::any, call.integers(0), call.attr<bool>(1)); }
bool all(Call& call) { return reduce(call, hp::ops::all, call.integers(0), call.attr<bool>(1)); }

// Sums over what the second input lacks or has one element in.
bool reduce_as(Call& call) {
  if (!call.input(0)->initialized() || !on_device(*call.input(0)) || call.input(0)->numel() == 0 ||
      call.input(0)->dims().size() > kMaxDimensions || to_core(call.kernel.dtype) == DType::kNone) {
    return false;
  }
  const View out = call.allocate(0), x = call.view_of(0);
  Shaped target(out);
  while (target.ndim() < x.ndim) target.unsqueeze(0);
  uint64_t dims = 0;
  for (int d = 0; d < x.ndim; ++d) {
    if (target.size(d) == 1 && x.sizes[d] != 1) dims |= uint64_t{1} << d;
  }
  if (dims == 0) return copy(call.service(), call.device, target, x);
  return hp::ops::sum(call.service(), call.device, target, x, dims, true);
}

// ---- Norms

// A single dimension; as a vector, or with none, every one.
struct NormOf {
  explicit NormOf(const Call& call, int ndim)
      : order(call.real(0)),
        dims(call.attr<bool>(4) || ndim == 0 ? std::vector<int64_t>{} : std::vector<int64_t>{call.integer(1)}),
        keepdim(call.attr<bool>(3)) {}
  double order;
  std::vector<int64_t> dims;
  bool keepdim;
};

bool norm(Call& call, double order, const std::vector<int64_t>& dims, bool keepdim) {
  const DenseTensor& x = *call.input(0);
  if (!call.plain() || x.numel() == 0 || x.dims().size() > kMaxDimensions || !is_float(to_core(call.kernel.dtype))) {
    return false;
  }
  const View out = call.allocate(0);
  const uint64_t mask = mask_of(dims, x.dims().size());
  // Paddle keeps one element for a sum over everything where the output has a dimension.
  Shaped target(out);
  if (!keepdim && out.numel() == 1 && out.ndim == 1 && x.dims().size() == __builtin_popcountll(mask)) {
    target = Shaped(out.data, out.dtype, 0, nullptr);
  }
  return hp::ops::vector_norm(call.service(), call.device, target, call.view_of(0), order, mask, keepdim);
}
bool p_norm(Call& call) {
  const NormOf given(call, call.input(0)->dims().size());
  return norm(call, given.order, given.dims, given.keepdim);
}
bool frobenius_norm(Call& call) { return norm(call, 2, dims_or_all(call, 0, 2), call.attr<bool>(1)); }
bool l1_norm(Call& call) { return norm(call, 1, {}, false); }

bool spreadable(const Call& call) {
  const DenseTensor *x = call.input(0), *grad = call.input(1);
  return x->numel() != 0 && x->dims().size() <= kMaxDimensions && grad->initialized() && on_device(*grad) &&
         to_core(grad->dtype()) != DType::kNone;
}

// Attributes: dims, keep_dim, reduce_all. The input's sizes alone matter.
struct Spread {
  explicit Spread(const Call& call)
      : dims(call.attr<bool>(2) ? std::vector<int64_t>{} : call.integers(0)), keepdim(call.attr<bool>(1)) {}
  std::vector<int64_t> dims;
  bool keepdim;
};

// What a reduction gave, in the shape of its input: one value along each reduced dimension.
Shaped spread(const View& given, const View& out, const std::vector<int64_t>& dims, bool keepdim) {
  Shaped grad(given);
  if (grad.view().numel() == 1) grad = Shaped(given.data, given.dtype, 0, nullptr);
  const uint64_t mask = mask_of(dims, out.ndim);
  if (grad.ndim() != 0 && !keepdim && grad.ndim() < out.ndim) {
    for (int d = 0; d < out.ndim; ++d) {
      if (mask >> d & 1) grad.unsqueeze(d);
    }
  }
  return grad.expand(out.ndim, out.sizes);
}
Shaped spread_to(Call& call, const View& out, const std::vector<int64_t>& dims, bool keepdim) {
  return spread(call.view_of(1), out, dims, keepdim);
}

bool sum_grad(Call& call) {
  if (!spreadable(call)) return false;
  const Spread given(call);
  static Step step("copy");
  const View out = call.allocate(0);
  return copy(step.on(call.device), call.device, out, spread_to(call, out, given.dims, given.keepdim)) &&
         decomposed(call);
}

bool scaled(Call& call, const View& out, const View& grad) {
  static PointwiseStep scale("scale");
  const double share = static_cast<double>(call.input(1)->numel()) / static_cast<double>(out.numel());
  return is_float(out.dtype) && scale(call.device, out, {grad}, {share, 0}, 1) && decomposed(call);
}

bool mean_grad(Call& call) {
  if (!spreadable(call)) return false;
  const Spread given(call);
  const View out = call.allocate(0);
  return scaled(call, out, spread_to(call, out, given.dims, given.keepdim));
}

bool reduce_as_grad(Call& call) {
  static Step step("copy");
  const DenseTensor& grad = *call.input(2);
  if (!grad.initialized() || !on_device(grad) || call.input(0)->numel() == 0 || grad.dims().size() > kMaxDimensions ||
      call.input(0)->dims().size() > kMaxDimensions || to_core(grad.dtype()) == DType::kNone) {
    return false;
  }
  const View out = call.allocate(0);
  Shaped from(call.view_of(2));
  return copy(step.on(call.device), call.device, out, from.expand(out.ndim, out.sizes)) && decomposed(call);
}

// ---- Gradients that need the input and the result. Inputs: x, out, the gradient of out.

struct Reduced {
  Reduced(Call& call, const std::vector<int64_t>& dims, bool keepdim)
      : x(call.view_of(0)),
        out(call.allocate(0)),
        result(spread(call.view_of(1), out, dims, keepdim)),
        grad(spread(call.view_of(2), out, dims, keepdim)) {}
  View x, out;
  Shaped result, grad;
};

bool reduced_takes(const Call& call) {
  const DenseTensor& x = *call.input(0);
  return call.plain() && x.numel() != 0 && x.dims().size() <= kMaxDimensions && call.service().able() &&
         is_float(to_core(call.kernel.dtype)) && call.input(1)->initialized() && call.input(2)->initialized();
}

bool reduced_grad(Call& call, PointwiseStep& step) {
  if (!reduced_takes(call)) return false;
  const Reduced given(call, dims_or_all(call, 0, 2), call.attr<bool>(1));
  return step(call.device, given.out, {given.grad, given.x, given.result}) && decomposed(call);
}

// Elements that are the extreme share the gradient.
bool amax_grad(Call& call) {
  static PointwiseStep choose("amax_backward_self"), same("eq"), divide("div");
  static Step sum("sum");
  if (!reduced_takes(call)) return false;
  const std::vector<int64_t> dims = dims_or_all(call, 0, 2);
  const Reduced given(call, dims, call.attr<bool>(1));
  const Temporary equal(call.device, given.out.dtype, given.out.ndim, given.out.sizes);
  std::array<int64_t, kMaxDimensions> sizes{};
  const uint64_t mask = mask_of(dims, given.out.ndim);
  for (int d = 0; d < given.out.ndim; ++d) sizes[d] = mask >> d & 1 ? 1 : given.out.sizes[d];
  const Temporary count(call.device, given.out.dtype, given.out.ndim, sizes.data());
  return same(call.device, equal, {given.x, given.result}) &&
         hp::ops::sum(sum.on(call.device), call.device, count, equal, mask, true) &&
         choose(call.device, given.out, {given.grad, given.x, given.result}) &&
         divide(call.device, given.out, {given.out, count}) && decomposed(call);
}
bool amin_grad(Call& call) { return amax_grad(call); }
bool max_grad(Call& call) { return amax_grad(call); }
bool min_grad(Call& call) { return amax_grad(call); }

bool prod_grad(Call& call) {
  static PointwiseStep step("prod_backward_self");
  return reduced_grad(call, step);
}

bool logsumexp(Call& call) {
  static Step largest("amax"), sum("sum");
  static PointwiseStep finite("nan_to_num"), subtract("sub"), exponent("exp"), logarithm("log"), add("add");
  const DenseTensor& x = *call.input(0);
  if (!call.plain() || x.numel() == 0 || x.dims().size() > kMaxDimensions || !call.service().able() ||
      !is_float(to_core(call.kernel.dtype))) {
    return false;
  }
  Device& device = call.device;
  const View from = call.view_of(0), out = call.allocate(0);
  const uint64_t mask = mask_of(dims_or_all(call, 0, 2), from.ndim);
  std::array<int64_t, kMaxDimensions> sizes{};
  for (int d = 0; d < from.ndim; ++d) sizes[d] = mask >> d & 1 ? 1 : from.sizes[d];
  const Temporary top(device, from.dtype, from.ndim, sizes.data()), shifted(device, from.dtype, from.ndim, from.sizes);
  const Shaped result(out.data, out.dtype, from.ndim, sizes.data());
  // Of infinities alone the shift would be no number.
  return hp::ops::amax(largest.on(device), device, top, from, mask, true) && finite(device, top, {top}, {0, 0, 0}) &&
         subtract(device, shifted, {from, top}, {1}) && exponent(device, shifted, {shifted}) &&
         hp::ops::sum(sum.on(device), device, result, shifted, mask, true) && logarithm(device, result, {result}) &&
         add(device, result, {result, top}, {1}) && decomposed(call);
}
bool logsumexp_grad(Call& call) {
  static PointwiseStep step("logsumexp_backward_self");
  return reduced_grad(call, step);
}

bool norm_grad(Call& call, double order, double eps, const std::vector<int64_t>& dims, bool keepdim) {
  static PointwiseStep step("vector_norm_backward");
  enum Variant { kTwo, kOne, kInfinite, kOther };
  if (!reduced_takes(call)) return false;
  const Reduced given(call, dims, keepdim);
  if (order == 0) return zero(call.device, given.out) && decomposed(call);
  const Variant variant = order == 2 ? kTwo : order == 1 ? kOne : std::isinf(order) ? kInfinite : kOther;
  return step(call.device, given.out, {given.grad, given.x, given.result}, {order, eps}, variant) && decomposed(call);
}
// Attributes: porder, axis, epsilon, keepdim, asvector.
bool p_norm_grad(Call& call) {
  const NormOf given(call, call.input(0)->dims().size());
  return norm_grad(call, given.order, call.real(2), given.dims, given.keepdim);
}
bool frobenius_norm_grad(Call& call) { return norm_grad(call, 2, 0, dims_or_all(call, 0, 2), call.attr<bool>(1)); }

bool mean_all_grad(Call& call) {
  if (!spreadable(call)) return false;
  const View out = call.allocate(0);
  return scaled(call, out, spread_to(call, out, {}, false));
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/reduction.inc"
