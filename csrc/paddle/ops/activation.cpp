// Activations of two tensors; those of one are pointwise.
#include "../parts.h"

namespace hp::paddle_adapter::ops {
namespace {

bool takes(const Call& call) {
  return call.plain() && is_float(to_core(call.kernel.dtype)) && call.input(0)->numel() != 0 &&
         call.input(0)->dims().size() <= kMaxDimensions && call.input(0)->dims().size() > 0;
}

// x and its gate: two tensors, or the halves of one.
struct Gated {
  Gated(const View& both, const View& gate) : x(both), y(gate.defined() ? gate : both) {
    if (gate.defined()) return;
    const int last = both.ndim - 1;
    x.narrow(last, 0, both.sizes[last] / 2);
    y.narrow(last, both.sizes[last] / 2, both.sizes[last] / 2);
  }
  Shaped x, y;
};

// z = silu(x) * y
bool swiglu(Call& call) {
  static PointwiseStep silu("silu"), multiply("mul");
  if (!takes(call)) return false;
  const Gated given(call.view_of(0), call.view_of(1));
  const View out = call.allocate(0);
  return silu(call.device, out, {given.x}) && multiply(call.device, out, {out, given.y}) && decomposed(call);
}

// Inputs: x, y, the gradient.
bool swiglu_grad(Call& call) {
  static PointwiseStep silu("silu"), silu_backward("silu_backward"), multiply("mul");
  if (!takes(call)) return false;
  const View grad = call.view_of(2);
  const bool halves = call.input(1) == nullptr;
  const Gated given(call.view_of(0), call.view_of(1));
  if (halves && call.output(0) == nullptr) return false;
  std::optional<Gated> both;
  View of_x, of_y;
  if (halves) {
    both.emplace(call.allocate(0), View{});
    of_x = both->x, of_y = both->y;
  } else {
    if (call.output(0) != nullptr) of_x = call.allocate(0);
    if (call.output(1) != nullptr) of_y = call.allocate(1);
  }
  if (of_y.defined() && !(silu(call.device, of_y, {given.x}) && multiply(call.device, of_y, {of_y, grad}))) {
    return false;
  }
  if (of_x.defined()) {
    const Temporary gated(call.device, grad.dtype, grad.ndim, grad.sizes);
    if (!multiply(call.device, gated, {grad, given.y}) || !silu_backward(call.device, of_x, {gated, given.x})) {
      return false;
    }
  }
  return decomposed(call);
}

// The slopes, as they are broadcast to x. Attributes: data_format, mode.
bool slopes(const Call& call, Shaped& alpha) {
  const View x = call.view_of(0), given = call.view_of(1);
  const auto& mode = call.attr<std::string>(1);
  std::array<int64_t, 16> sizes;
  sizes.fill(1);
  if (mode == "channel") {
    const int dim = call.attr<std::string>(0) == "NHWC" ? x.ndim - 1 : 1;
    if (x.ndim < 2 || x.sizes[dim] != given.numel()) return false;
    sizes[dim] = given.numel();
  } else if (mode == "element") {
    std::copy(x.sizes + 1, x.sizes + x.ndim, sizes.begin() + 1);
    if (given.numel() * x.sizes[0] != x.numel()) return false;
  } else if (given.numel() != 1) {
    return false;
  }
  alpha = Shaped(given.data, given.dtype, x.ndim, sizes.data());
  return true;
}

bool prelu(Call& call) {
  static PointwiseStep step("prelu");
  Shaped alpha;
  if (!takes(call) || !slopes(call, alpha)) return false;
  return step(call.device, call.allocate(0), {call.view_of(0), alpha}) && decomposed(call);
}

// Inputs: x, alpha, the gradient.
bool prelu_grad(Call& call) {
  static PointwiseStep positive("threshold_backward"), subtract("sub"), multiply("mul"), add("add");
  Shaped alpha;
  if (!takes(call) || !slopes(call, alpha)) return false;
  Device& device = call.device;
  const View x = call.view_of(0), grad = call.view_of(2);
  // The gradients of positive elements, and those of the others.
  const Temporary kept(device, x.dtype, x.ndim, x.sizes), others(device, x.dtype, x.ndim, x.sizes);
  if (!positive(device, kept, {grad, x}, {0}) || !subtract(device, others, {grad, kept}, {1})) return false;
  if (call.output(1) != nullptr) {
    const View out = call.allocate(1);
    const Temporary products(device, x.dtype, x.ndim, x.sizes);
    Shaped target = alpha;
    target.set_data(out.data);
    if (!multiply(device, products, {others, x}) || !sum_to(device, target, products)) return false;
  }
  if (call.output(0) != nullptr) {
    const View out = call.allocate(0);
    if (!multiply(device, others, {others, alpha}) || !add(device, out, {kept, others}, {1})) return false;
  }
  return decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/activation.inc"
