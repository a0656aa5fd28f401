// Activations with two input tensors. Those with one are pointwise.
#include "dispatch/composition.h"

namespace hp::paddle_adapter::ops {
namespace {

bool supports_activation(const Call& call) {
  return call.inputs_ready() && is_float(to_core(call.kernel.dtype)) && call.input(0)->numel() != 0 &&
         call.input(0)->dims().size() <= kMaxKernelRank && call.input(0)->dims().size() > 0;
}

// The operands of a gated activation: two tensors, or the two halves of one along its last dimension.
struct Gated {
  Gated(const View& first, const View& second) : x(first), y(second.defined() ? second : first) {
    if (second.defined()) return;
    const int last = first.ndim - 1;
    x.narrow(last, 0, first.sizes[last] / 2);
    y.narrow(last, first.sizes[last] / 2, first.sizes[last] / 2);
  }
  ShapedView x, y;
};

// z = silu(x) * y
bool swiglu(Call& call) {
  static PointwiseOp silu("silu"), multiply("mul");
  if (!supports_activation(call)) return false;
  const Gated operands(call.view_of(0), call.view_of(1));
  const View out = call.allocate(0);
  return silu(call.device, out, {operands.x}) && multiply(call.device, out, {out, operands.y}) &&
         count_decomposed(call);
}

// Inputs: x, y, out_grad.
bool swiglu_grad(Call& call) {
  static PointwiseOp silu("silu"), silu_backward("silu_backward"), multiply("mul");
  if (!supports_activation(call)) return false;
  const View grad = call.view_of(2);
  const bool halves = call.input(1) == nullptr;
  const Gated operands(call.view_of(0), call.view_of(1));
  if (halves && call.output(0) == nullptr) return false;
  std::optional<Gated> grads;
  View grad_x, grad_y;
  if (halves) {
    grads.emplace(call.allocate(0), View{});
    grad_x = grads->x, grad_y = grads->y;
  } else {
    if (call.output(0) != nullptr) grad_x = call.allocate(0);
    if (call.output(1) != nullptr) grad_y = call.allocate(1);
  }
  if (grad_y.defined() && !(silu(call.device, grad_y, {operands.x}) && multiply(call.device, grad_y, {grad_y, grad}))) {
    return false;
  }
  if (grad_x.defined()) {
    const Temporary gated(call.device, grad.dtype, grad.ndim, grad.sizes);
    if (!multiply(call.device, gated, {grad, operands.y}) || !silu_backward(call.device, grad_x, {gated, operands.x})) {
      return false;
    }
  }
  return count_decomposed(call);
}

// Sets `alpha` to a view of the slopes (input 1) that broadcasts to x. Attributes: data_format, mode.
bool read_slopes(const Call& call, ShapedView& alpha) {
  const View x = call.view_of(0), slopes = call.view_of(1);
  const auto& mode = call.attr<std::string>(1);
  std::array<int64_t, 16> sizes;
  sizes.fill(1);
  if (mode == "channel") {
    const int dim = call.attr<std::string>(0) == "NHWC" ? x.ndim - 1 : 1;
    if (x.ndim < 2 || x.sizes[dim] != slopes.numel()) return false;
    sizes[dim] = slopes.numel();
  } else if (mode == "element") {
    std::copy(x.sizes + 1, x.sizes + x.ndim, sizes.begin() + 1);
    if (slopes.numel() * x.sizes[0] != x.numel()) return false;
  } else if (slopes.numel() != 1) {
    return false;
  }
  alpha = ShapedView(slopes.data, slopes.dtype, x.ndim, sizes.data());
  return true;
}

bool prelu(Call& call) {
  static PointwiseOp step("prelu");
  ShapedView alpha;
  if (!supports_activation(call) || !read_slopes(call, alpha)) return false;
  return step(call.device, call.allocate(0), {call.view_of(0), alpha}) && count_decomposed(call);
}

// Inputs: x, alpha, out_grad.
bool prelu_grad(Call& call) {
  static PointwiseOp threshold("threshold_backward"), subtract("sub"), multiply("mul"), add("add");
  ShapedView alpha;
  if (!supports_activation(call) || !read_slopes(call, alpha)) return false;
  Device& device = call.device;
  const View x = call.view_of(0), grad = call.view_of(2);
  // The output gradient where x is positive, and where it is not; zero elsewhere.
  const Temporary positive(device, x.dtype, x.ndim, x.sizes), negative(device, x.dtype, x.ndim, x.sizes);
  if (!threshold(device, positive, {grad, x}, {0}) || !subtract(device, negative, {grad, positive}, {1})) return false;
  if (call.output(1) != nullptr) {
    const View out = call.allocate(1);
    const Temporary products(device, x.dtype, x.ndim, x.sizes);
    ShapedView target = alpha;
    target.set_data(out.data);
    if (!multiply(device, products, {negative, x}) || !sum_to(device, target, products)) return false;
  }
  if (call.output(0) != nullptr) {
    const View out = call.allocate(0);
    if (!multiply(device, negative, {negative, alpha}) || !add(device, out, {positive, negative}, {1})) return false;
  }
  return count_decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/activation.inc"
