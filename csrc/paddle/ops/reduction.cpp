#include "ops/reduction.h"

#include <cmath>

#include "dispatch/composition.h"

namespace hp::paddle_adapter::ops {
namespace {

// InferMeta has set the output's sizes.
bool reduce(Call& call, hp::ops::Reducer& reducer, const std::vector<int64_t>& dims, bool keepdim) {
  const DenseTensor& x = *call.input(0);
  if (!call.inputs_ready() || x.numel() == 0 || x.dims().size() > kMaxKernelRank) return false;
  const View out = call.allocate(0);
  return reducer(call.binding(), call.device, out, view(x), dim_mask(dims, x.dims().size()), keepdim);
}

bool sum(Call& call) { return reduce(call, hp::ops::sum, call.integers(0), call.attr<bool>(2)); }
// The CPU's mean of bool is true if any element is.
bool mean(Call& call) {
  return call.kernel.dtype != phi::DataType::BOOL && reduce(call, hp::ops::mean, call.integers(0), call.attr<bool>(1));
}
bool mean_all(Call& call) { return reduce(call, hp::ops::mean, {}, false); }

std::vector<int64_t> dims_or_all(const Call& call, int dims, int all) {
  return call.attr<bool>(all) ? std::vector<int64_t>{} : call.integers(dims);
}
// Attributes: dims, keep_dim, reduce_all, out_dtype.
bool sum_raw(Call& call) { return reduce(call, hp::ops::sum, dims_or_all(call, 0, 2), call.attr<bool>(1)); }
bool nansum(Call& call) { return reduce(call, hp::ops::nansum, call.integers(0), call.attr<bool>(2)); }
// Attributes: dims, keep_dim, reduce_all.
bool mean_raw(Call& call) {
  return call.kernel.dtype != phi::DataType::BOOL &&
         reduce(call, hp::ops::mean, dims_or_all(call, 0, 2), call.attr<bool>(1));
}
bool prod(Call& call) { return reduce(call, hp::ops::prod, dims_or_all(call, 0, 2), call.attr<bool>(1)); }
// Attributes: dims, keep_dim.
bool prod_infer(Call& call) { return reduce(call, hp::ops::prod, call.integers(0), call.attr<bool>(1)); }
bool max(Call& call) { return reduce(call, hp::ops::amax, call.integers(0), call.attr<bool>(1)); }
bool min(Call& call) { return reduce(call, hp::ops::amin, call.integers(0), call.attr<bool>(1)); }
bool amax(Call& call) { return max(call); }
bool amin(Call& call) { return min(call); }
bool any(Call& call) { return reduce(call, hp::ops::any, call.integers(0), call.attr<bool>(1)); }
bool all(Call& call) { return reduce(call, hp::ops::all, call.integers(0), call.attr<bool>(1)); }

// Sums x to the shape of the second input, over the dimensions that it lacks or has with size 1.
bool reduce_as(Call& call) {
  if (!call.input(0)->initialized() || !on_device(*call.input(0)) || call.input(0)->numel() == 0 ||
      call.input(0)->dims().size() > kMaxKernelRank || to_core(call.kernel.dtype) == DType::kNone) {
    return false;
  }
  // As in `sum`, but Paddle's shape function leaves the input's dtype.
  const phi::DataType dtype = call.kernel.dtype;
  if (dtype == phi::DataType::BOOL || dtype == phi::DataType::INT32) call.output(0)->set_type(phi::DataType::INT64);
  const View out = call.allocate(0), x = call.view_of(0);
  ShapedView target(out);
  while (target.ndim() < x.ndim) target.unsqueeze(0);
  uint64_t dims = 0;
  for (int d = 0; d < x.ndim; ++d) {
    if (target.size(d) == 1 && x.sizes[d] != 1) dims |= uint64_t{1} << d;
  }
  if (dims == 0) return copy(call.binding(), call.device, target, x);
  return hp::ops::sum(call.binding(), call.device, target, x, dims, true);
}

// ---- Norms

// Attributes: porder, axis, epsilon, keepdim, asvector (reduce all dimensions).
struct NormOptions {
  explicit NormOptions(const Call& call, int ndim)
      : order(call.real(0)),
        dims(call.attr<bool>(4) || ndim == 0 ? std::vector<int64_t>{} : std::vector<int64_t>{call.integer(1)}),
        keepdim(call.attr<bool>(3)) {}
  double order;
  std::vector<int64_t> dims;
  bool keepdim;
};

bool norm(Call& call, double order, const std::vector<int64_t>& dims, bool keepdim) {
  const DenseTensor& x = *call.input(0);
  if (!call.inputs_ready() || x.numel() == 0 || x.dims().size() > kMaxKernelRank ||
      !is_float(to_core(call.kernel.dtype))) {
    return false;
  }
  const View out = call.allocate(0);
  const uint64_t mask = dim_mask(dims, x.dims().size());
  // Reducing all dimensions, Paddle may give the output shape [1]: pass it as a scalar.
  ShapedView target(out);
  if (!keepdim && out.numel() == 1 && out.ndim == 1 && x.dims().size() == __builtin_popcountll(mask)) {
    target = ShapedView(out.data, out.dtype, 0, nullptr);
  }
  return hp::ops::vector_norm(call.binding(), call.device, target, call.view_of(0), order, mask, keepdim);
}
bool p_norm(Call& call) {
  const NormOptions options(call, call.input(0)->dims().size());
  return norm(call, options.order, options.dims, options.keepdim);
}
bool frobenius_norm(Call& call) { return norm(call, 2, dims_or_all(call, 0, 2), call.attr<bool>(1)); }
bool l1_norm(Call& call) { return norm(call, 1, {}, false); }

bool supports_grad(const Call& call) {
  const DenseTensor *x = call.input(0), *grad = call.input(1);
  return x->numel() != 0 && x->dims().size() <= kMaxKernelRank && grad->initialized() && on_device(*grad) &&
         to_core(grad->dtype()) != DType::kNone;
}

// Attributes: dims, keep_dim, reduce_all.
struct ReductionOptions {
  explicit ReductionOptions(const Call& call)
      : dims(call.attr<bool>(2) ? std::vector<int64_t>{} : call.integers(0)), keepdim(call.attr<bool>(1)) {}
  std::vector<int64_t> dims;
  bool keepdim;
};

// Expands the result of a reduction to the shape of its input, `out`.
ShapedView expand_result(const View& reduced, const View& out, const std::vector<int64_t>& dims, bool keepdim) {
  ShapedView grad(reduced);
  if (grad.view().numel() == 1) grad = ShapedView(reduced.data, reduced.dtype, 0, nullptr);
  const uint64_t mask = dim_mask(dims, out.ndim);
  if (grad.ndim() != 0 && !keepdim && grad.ndim() < out.ndim) {
    for (int d = 0; d < out.ndim; ++d) {
      if (mask >> d & 1) grad.unsqueeze(d);
    }
  }
  return grad.expand(out.ndim, out.sizes);
}
ShapedView expand_grad(Call& call, const View& out, const std::vector<int64_t>& dims, bool keepdim) {
  return expand_result(call.view_of(1), out, dims, keepdim);
}

bool sum_grad(Call& call) {
  if (!supports_grad(call)) return false;
  const ReductionOptions options(call);
  static StandardOp step("copy");
  const View out = call.allocate(0);
  return copy(step.on(call.device), call.device, out, expand_grad(call, out, options.dims, options.keepdim)) &&
         count_decomposed(call);
}

bool scale_by_count(Call& call, const View& out, const View& grad) {
  static PointwiseOp scale("scale");
  const double share = static_cast<double>(call.input(1)->numel()) / static_cast<double>(out.numel());
  return is_float(out.dtype) && scale(call.device, out, {grad}, {share, 0}, 1) && count_decomposed(call);
}

bool mean_grad(Call& call) {
  if (!supports_grad(call)) return false;
  const ReductionOptions options(call);
  const View out = call.allocate(0);
  return scale_by_count(call, out, expand_grad(call, out, options.dims, options.keepdim));
}

bool reduce_as_grad(Call& call) {
  static StandardOp step("copy");
  const DenseTensor& grad = *call.input(2);
  if (!grad.initialized() || !on_device(grad) || call.input(0)->numel() == 0 || grad.dims().size() > kMaxKernelRank ||
      call.input(0)->dims().size() > kMaxKernelRank || to_core(grad.dtype()) == DType::kNone) {
    return false;
  }
  const View out = call.allocate(0);
  ShapedView from(call.view_of(2));
  return copy(step.on(call.device), call.device, out, from.expand(out.ndim, out.sizes)) && count_decomposed(call);
}

// ---- Gradients that need the input and the result. Inputs: x, out, out_grad.

struct ReducedGrad {
  ReducedGrad(Call& call, const std::vector<int64_t>& dims, bool keepdim)
      : x(call.view_of(0)),
        out(call.allocate(0)),
        result(expand_result(call.view_of(1), out, dims, keepdim)),
        grad(expand_result(call.view_of(2), out, dims, keepdim)) {}
  View x, out;
  ShapedView result, grad;
};

bool supports_reduced_grad(const Call& call) {
  const DenseTensor& x = *call.input(0);
  return call.inputs_ready() && x.numel() != 0 && x.dims().size() <= kMaxKernelRank && call.binding().can_serve() &&
         is_float(to_core(call.kernel.dtype)) && call.input(1)->initialized() && call.input(2)->initialized();
}

bool reduced_grad(Call& call, PointwiseOp& step) {
  if (!supports_reduced_grad(call)) return false;
  const ReducedGrad reduced(call, dims_or_all(call, 0, 2), call.attr<bool>(1));
  return step(call.device, reduced.out, {reduced.grad, reduced.x, reduced.result}) && count_decomposed(call);
}

// Elements equal to the extreme value share the gradient.
bool amax_grad(Call& call) {
  static PointwiseOp choose("amax_backward_self"), same("eq"), divide("div");
  static StandardOp sum("sum");
  if (!supports_reduced_grad(call)) return false;
  const std::vector<int64_t> dims = dims_or_all(call, 0, 2);
  const ReducedGrad reduced(call, dims, call.attr<bool>(1));
  const Temporary equal(call.device, reduced.out.dtype, reduced.out.ndim, reduced.out.sizes);
  std::array<int64_t, kMaxKernelRank> sizes{};
  const uint64_t mask = dim_mask(dims, reduced.out.ndim);
  for (int d = 0; d < reduced.out.ndim; ++d) sizes[d] = mask >> d & 1 ? 1 : reduced.out.sizes[d];
  const Temporary count(call.device, reduced.out.dtype, reduced.out.ndim, sizes.data());
  return same(call.device, equal, {reduced.x, reduced.result}) &&
         hp::ops::sum(sum.on(call.device), call.device, count, equal, mask, true) &&
         choose(call.device, reduced.out, {reduced.grad, reduced.x, reduced.result}) &&
         divide(call.device, reduced.out, {reduced.out, count}) && count_decomposed(call);
}
bool amin_grad(Call& call) { return amax_grad(call); }
bool max_grad(Call& call) { return amax_grad(call); }
bool min_grad(Call& call) { return amax_grad(call); }

bool prod_grad(Call& call) {
  static PointwiseOp step("prod_backward_self");
  return reduced_grad(call, step);
}

bool logsumexp(Call& call) {
  static StandardOp largest("amax"), sum("sum");
  static PointwiseOp finite("nan_to_num"), subtract("sub"), exponent("exp"), logarithm("log"), add("add");
  const DenseTensor& x = *call.input(0);
  if (!call.inputs_ready() || x.numel() == 0 || x.dims().size() > kMaxKernelRank || !call.binding().can_serve() ||
      !is_float(to_core(call.kernel.dtype))) {
    return false;
  }
  Device& device = call.device;
  const View from = call.view_of(0), out = call.allocate(0);
  const uint64_t mask = dim_mask(dims_or_all(call, 0, 2), from.ndim);
  std::array<int64_t, kMaxKernelRank> sizes{};
  for (int d = 0; d < from.ndim; ++d) sizes[d] = mask >> d & 1 ? 1 : from.sizes[d];
  const Temporary maximum(device, from.dtype, from.ndim, sizes.data()),
      shifted(device, from.dtype, from.ndim, from.sizes);
  const ShapedView result(out.data, out.dtype, from.ndim, sizes.data());
  // A row of infinities must not be shifted by infinity, which gives NaN.
  return hp::ops::amax(largest.on(device), device, maximum, from, mask, true) &&
         finite(device, maximum, {maximum}, {0, 0, 0}) && subtract(device, shifted, {from, maximum}, {1}) &&
         exponent(device, shifted, {shifted}) && hp::ops::sum(sum.on(device), device, result, shifted, mask, true) &&
         logarithm(device, result, {result}) && add(device, result, {result, maximum}, {1}) && count_decomposed(call);
}
bool logsumexp_grad(Call& call) {
  static PointwiseOp step("logsumexp_backward_self");
  return reduced_grad(call, step);
}

bool norm_grad(Call& call, double order, double eps, const std::vector<int64_t>& dims, bool keepdim) {
  static PointwiseOp step("vector_norm_backward");
  enum Variant { kTwo, kOne, kInfinite, kOther };
  if (!supports_reduced_grad(call)) return false;
  const ReducedGrad reduced(call, dims, keepdim);
  if (order == 0) return zero(call.device, reduced.out) && count_decomposed(call);
  const Variant variant = order == 2 ? kTwo : order == 1 ? kOne : std::isinf(order) ? kInfinite : kOther;
  return step(call.device, reduced.out, {reduced.grad, reduced.x, reduced.result}, {order, eps}, variant) &&
         count_decomposed(call);
}
bool p_norm_grad(Call& call) {
  const NormOptions options(call, call.input(0)->dims().size());
  return norm_grad(call, options.order, call.real(2), options.dims, options.keepdim);
}
bool frobenius_norm_grad(Call& call) { return norm_grad(call, 2, 0, dims_or_all(call, 0, 2), call.attr<bool>(1)); }

bool mean_all_grad(Call& call) {
  if (!supports_grad(call)) return false;
  const View out = call.allocate(0);
  return scale_by_count(call, out, expand_grad(call, out, {}, false));
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/reduction.inc"
