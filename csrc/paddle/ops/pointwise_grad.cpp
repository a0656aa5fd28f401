// Gradients of pointwise functions of two tensors, summed over broadcast dimensions. The gradient of the second input
// is computed first, because the first one's output may share memory with the output gradient.
#include <optional>

#include "dispatch/composition.h"

namespace hp::paddle_adapter::ops {
namespace {

// `grad` is the index of the output gradient, the last input.
bool supports_grad(const Call& call, int grad) {
  for (int i = 0; i <= grad; ++i) {
    const DenseTensor& tensor = *call.input(i);
    if (tensor.dims().size() > kMaxKernelRank) return false;
    if (tensor.initialized() && (!on_device(tensor) || !tensor.meta().is_contiguous())) return false;
  }
  return call.input(grad)->initialized() && call.input(grad)->numel() != 0 && is_float(to_core(call.kernel.dtype)) &&
         call.binding().can_serve();
}
// For kernels with the attribute `axis`.
bool supports_pointwise_grad(const Call& call, int grad) {
  const DenseTensor &x = *call.input(0), &y = *call.input(1);
  // `axis` only matters if the shapes differ.
  return supports_grad(call, grad) && (call.attr<int>(0) == -1 || x.dims() == y.dims());
}

// The gradient of one input: computed in the full broadcast shape, then summed to the input's shape. Both are the
// output itself if nothing was broadcast.
class BroadcastGrad {
 public:
  BroadcastGrad(Call& call, DenseTensor& output, const View& grad) : device_(call.device), out_(call.allocate(output)) {
    if (!same_sizes(out_, grad)) full_.emplace(device_, out_.dtype, grad.ndim, grad.sizes);
  }
  const View& full() const { return full_ ? full_->view() : out_; }
  bool reduce() { return !full_ || sum_to(device_, out_, *full_); }
  const View& out() const { return out_; }

 private:
  Device& device_;
  const View out_;
  std::optional<Temporary> full_;
};

bool copy_grads(Call& call, bool negative) {
  static PointwiseOp negate("neg");
  if (!supports_pointwise_grad(call, 2)) return false;
  const View grad = call.view_of(2);
  if (call.output(1) != nullptr) {
    const View out = call.allocate(1);
    if (!sum_to(call.device, out, grad)) return false;
    if (negative && !negate(call.device, out, {out})) return false;
  }
  if (call.output(0) != nullptr && !sum_to(call.device, call.allocate(0), grad)) return false;
  return count_decomposed(call);
}
bool add_grad(Call& call) { return copy_grads(call, false); }
bool subtract_grad(Call& call) { return copy_grads(call, true); }

bool multiply_grad(Call& call) {
  static PointwiseOp multiply("mul");
  if (!supports_pointwise_grad(call, 2)) return false;
  const View x = call.view_of(0), y = call.view_of(1), grad = call.view_of(2);
  for (int i : {1, 0}) {
    if (call.output(i) == nullptr) continue;
    BroadcastGrad gradient(call, *call.output(i), grad);
    if (!multiply(call.device, gradient.full(), {grad, i == 1 ? x : y}) || !gradient.reduce()) return false;
  }
  return count_decomposed(call);
}

// Inputs: x, y, out = x / y, out_grad.
bool divide_grad(Call& call) {
  static PointwiseOp multiply("mul"), divide("div"), negate("neg");
  if (!supports_pointwise_grad(call, 3)) return false;
  const View y = call.view_of(1), quotient = call.view_of(2), grad = call.view_of(3);
  if (call.output(1) != nullptr) {
    BroadcastGrad gradient(call, *call.output(1), grad);
    if (!multiply(call.device, gradient.full(), {grad, quotient}) ||
        !divide(call.device, gradient.full(), {gradient.full(), y}) || !gradient.reduce() ||
        !negate(call.device, gradient.out(), {gradient.out()})) {
      return false;
    }
  }
  if (call.output(0) != nullptr) {
    BroadcastGrad gradient(call, *call.output(0), grad);
    if (!divide(call.device, gradient.full(), {grad, y}) || !gradient.reduce()) return false;
  }
  return count_decomposed(call);
}

// Inputs: x, y, out_grad. The operators take (out_grad, x, y).
bool two_grads(Call& call, PointwiseOp& x_grad, PointwiseOp& y_grad) {
  if (!supports_grad(call, 2)) return false;
  const View x = call.view_of(0), y = call.view_of(1), grad = call.view_of(2);
  if (!x.defined() || !y.defined()) return false;
  for (int i : {1, 0}) {
    if (call.output(i) == nullptr) continue;
    BroadcastGrad gradient(call, *call.output(i), grad);
    if (!(i == 1 ? y_grad : x_grad)(call.device, gradient.full(), {grad, x, y}) || !gradient.reduce()) return false;
  }
  return count_decomposed(call);
}

bool remainder_grad(Call& call) {
  static PointwiseOp y_grad("remainder_backward_other");
  if (!supports_grad(call, 2)) return false;
  const View x = call.view_of(0), y = call.view_of(1), grad = call.view_of(2);
  if (call.output(1) != nullptr) {
    if (!x.defined() || !y.defined()) return false;
    BroadcastGrad gradient(call, *call.output(1), grad);
    if (!y_grad(call.device, gradient.full(), {grad, x, y}) || !gradient.reduce()) return false;
  }
  if (call.output(0) != nullptr && !sum_to(call.device, call.allocate(0), grad)) return false;
  return count_decomposed(call);
}

// Inputs: condition, x, y, out_grad.
bool where_grad(Call& call) {
  static PointwiseOp where("where");
  const DenseTensor& condition = *call.input(0);
  if (!call.input(3)->initialized() || call.input(3)->numel() == 0 || !condition.initialized() ||
      !on_device(condition) || call.input(3)->dims().size() > kMaxKernelRank || !call.binding().can_serve() ||
      to_core(call.kernel.dtype) == DType::kNone || is_complex(to_core(call.kernel.dtype))) {
    return false;
  }
  const View condition_view = call.view_of(0), grad = call.view_of(3);
  const Temporary zeros(call.device, grad.dtype, 0, nullptr);
  if (!zero(call.device, zeros)) return false;
  for (int i : {1, 0}) {
    if (call.output(i) == nullptr) continue;
    BroadcastGrad gradient(call, *call.output(i), grad);
    const bool done = i == 0 ? where(call.device, gradient.full(), {condition_view, grad, zeros})
                             : where(call.device, gradient.full(), {condition_view, zeros, grad});
    if (!done || !gradient.reduce()) return false;
  }
  return count_decomposed(call);
}

// Inputs: x, y, weight, out, out_grad. The weight has no gradient.
bool lerp_grad(Call& call) {
  static PointwiseOp x_grad("lerp_backward_self"), multiply("mul");
  if (!call.input(4)->initialized() || call.input(4)->numel() == 0 || !call.input(2)->initialized() ||
      !on_device(*call.input(2)) || call.input(4)->dims().size() > kMaxKernelRank || !call.binding().can_serve() ||
      !is_float(to_core(call.kernel.dtype))) {
    return false;
  }
  const View weight = call.view_of(2), grad = call.view_of(4);
  for (int i : {1, 0}) {
    if (call.output(i) == nullptr) continue;
    BroadcastGrad gradient(call, *call.output(i), grad);
    if (!(i == 0 ? x_grad : multiply)(call.device, gradient.full(), {grad, weight}) || !gradient.reduce()) return false;
  }
  return count_decomposed(call);
}

// Rounding functions have a zero gradient.
bool zero_grad(Call& call) {
  if (to_core(call.kernel.dtype) == DType::kNone || !call.binding().can_serve()) return false;
  return zero(call.device, call.allocate(0)) && count_decomposed(call);
}
bool floor_grad(Call& call) { return zero_grad(call); }
bool ceil_grad(Call& call) { return zero_grad(call); }
bool round_grad(Call& call) { return zero_grad(call); }
bool trunc_grad(Call& call) { return zero_grad(call); }

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/pointwise_grad.inc"
