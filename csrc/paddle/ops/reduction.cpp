#include "../../ops/reduction.h"

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

// The gradient of a reduction, in the shape of its input: one value along each reduced dimension.
Shaped spread_to(Call& call, const View& out, const std::vector<int64_t>& dims, bool keepdim) {
  Shaped grad(call.view_of(1));
  const uint64_t mask = mask_of(dims, out.ndim);
  if (!keepdim && grad.ndim() < out.ndim) {
    for (int d = 0; d < out.ndim; ++d) {
      if (mask >> d & 1) grad.unsqueeze(d);
    }
  }
  return grad.expand(out.ndim, out.sizes);
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

bool mean_all_grad(Call& call) {
  if (!spreadable(call)) return false;
  const View out = call.allocate(0);
  return scaled(call, out, spread_to(call, out, {}, false));
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/reduction.inc"
