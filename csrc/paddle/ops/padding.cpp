#include "ops/padding.h"

#include "ops/window_attributes.h"

namespace hp::paddle_adapter::ops {
namespace {

bool is_valid(const std::vector<int64_t>& amounts, size_t count) {
  return amounts.size() == count && std::all_of(amounts.begin(), amounts.end(), [](int64_t n) { return n >= 0; });
}

bool pad_by(Call& call, const int64_t* before, const phi::Scalar& value) {
  static StandardOp step("copy");
  const View x = call.view_of(0), out = call.allocate(0);
  return fill(call.device, out, value) &&
         (x.numel() == 0 || copy(step.on(call.device), call.device, inner_view(out, x, before), x)) &&
         count_decomposed(call);
}

bool crop(Call& call, const View& grad, const int64_t* before) {
  static StandardOp step("copy");
  const View out = call.allocate(0);
  return copy(step.on(call.device), call.device, out, inner_view(grad, out, before)) && count_decomposed(call);
}

// ---- Any number of dimensions. Attributes: paddings (before and after, for each dimension), pad_value.

std::vector<int64_t> before_of(const std::vector<int64_t>& amounts) {
  std::vector<int64_t> before;
  for (size_t d = 0; d < amounts.size(); d += 2) before.push_back(amounts[d]);
  return before;
}

bool pad(Call& call) {
  const auto amounts = call.integers(0);
  const int ndim = call.input(0)->dims().size();
  if (!call.inputs_ready() || ndim > kMaxKernelRank || !is_valid(amounts, 2 * ndim)) return false;
  return pad_by(call, before_of(amounts).data(), call.attr<phi::Scalar>(1));
}

bool pad_grad(Call& call) {
  const auto amounts = call.integers(0);
  const int ndim = call.input(0)->dims().size();
  if (!call.inputs_ready() || call.input(0)->numel() == 0 || ndim > kMaxKernelRank || !is_valid(amounts, 2 * ndim))
    return false;
  return crop(call, call.view_of(0), before_of(amounts).data());
}

// ---- Three spatial dimensions. Attributes: paddings (before and after, last dimension first, as in torch), mode,
// pad_value, layout.

struct SpatialPadding {
  bool read(const Call& call) {
    amounts = call.integers(0);
    last = channels_last(call.attr<std::string>(3));
    if (!is_valid(amounts, 6)) return false;
    const int first = last ? 1 : 2;
    for (int d = 0; d < 3; ++d) before[first + d] = amounts[4 - 2 * d];
    return true;
  }
  // Whether the reflected elements are inside of x; else Paddle's CPU kernel raises an error.
  bool can_reflect(const DenseTensor& x) const {
    for (int d = 0; d < 3; ++d) {
      if (std::max(amounts[2 * d], amounts[2 * d + 1]) >= x.dims()[(last ? 3 : 4) - d]) return false;
    }
    return true;
  }
  std::vector<int64_t> amounts;
  std::array<int64_t, 5> before{};
  bool last;
};

bool pad3d(Call& call) {
  static StandardOp mirror("reflection_pad"), repeat("replication_pad");
  SpatialPadding padding;
  if (!call.inputs_ready() || call.input(0)->dims().size() != 5 || !padding.read(call)) return false;
  const auto& mode = call.attr<std::string>(1);
  if (mode == "constant") return pad_by(call, padding.before.data(), call.real(2));
  if (padding.last || call.input(0)->numel() == 0 || (mode != "reflect" && mode != "replicate") ||
      (mode == "reflect" && !padding.can_reflect(*call.input(0)))) {
    return false;
  }
  const View x = call.view_of(0), out = call.allocate(0);
  const bool done =
      mode == "reflect"
          ? hp::ops::reflection_pad(mirror.on(call.device), call.device, out, x, padding.amounts.data(), 6)
          : hp::ops::replication_pad(repeat.on(call.device), call.device, out, x, padding.amounts.data(), 6);
  return done && count_decomposed(call);
}

// Inputs: x, out_grad.
bool pad3d_grad(Call& call) {
  static StandardOp mirror("reflection_pad_backward"), repeat("replication_pad_backward");
  SpatialPadding padding;
  if (!is_ready(call.input(1)) || call.input(1)->dims().size() != 5 || call.input(1)->numel() == 0 ||
      !padding.read(call)) {
    return false;
  }
  const View grad = call.view_of(1);
  const auto& mode = call.attr<std::string>(1);
  if (mode == "constant") return crop(call, grad, padding.before.data());
  if (padding.last || (mode != "reflect" && mode != "replicate")) return false;
  const View out = call.allocate(0);
  const bool done = mode == "reflect" ? hp::ops::reflection_pad_backward(mirror.on(call.device), call.device, out, grad,
                                                                         padding.amounts.data(), 6)
                                      : hp::ops::replication_pad_backward(repeat.on(call.device), call.device, out,
                                                                          grad, padding.amounts.data(), 6);
  return done && count_decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/padding.inc"
