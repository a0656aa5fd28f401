// The gradients of functions of two tensors, each summed over the dimensions that were broadcast.
#include <optional>

#include "../parts.h"

namespace hp::paddle_adapter::ops {
namespace {

// Which of the kernel's inputs is the gradient of the output.
bool takes_all(const Call& call, int grad) {
  for (int i = 0; i <= grad; ++i) {
    const DenseTensor& tensor = *call.input(i);
    if (tensor.dims().size() > kMaxDimensions) return false;
    if (tensor.initialized() && (!on_device(tensor) || !tensor.meta().is_contiguous())) return false;
  }
  return call.input(grad)->initialized() && call.input(grad)->numel() != 0 && is_float(to_core(call.kernel.dtype)) &&
         call.service().able();
}
// The same for kernels with the attribute `axis`.
bool takes(const Call& call, int grad) {
  const DenseTensor &x = *call.input(0), &y = *call.input(1);
  // Another axis than the last ones is for tensors of unlike shapes only.
  return takes_all(call, grad) && (call.attr<int>(0) == -1 || x.dims() == y.dims());
}

// A gradient before its sum: in the output itself where nothing was broadcast.
class Summed {
 public:
  Summed(Call& call, DenseTensor& wanted, const View& grad) : device_(call.device), out_(call.allocate(wanted)) {
    if (!same_sizes(out_, grad)) whole_.emplace(device_, out_.dtype, grad.ndim, grad.sizes);
  }
  const View& whole() const { return whole_ ? whole_->view() : out_; }
  bool finish() { return !whole_ || sum_to(device_, out_, *whole_); }
  const View& out() const { return out_; }

 private:
  Device& device_;
  const View out_;
  std::optional<Temporary> whole_;
};

bool plain_grads(Call& call, bool negative) {
  static PointwiseStep negate("neg");
  if (!takes(call, 2)) return false;
  const View grad = call.view_of(2);
  // The second first: the gradient's memory may become that of the first.
  if (call.output(1) != nullptr) {
    const View out = call.allocate(1);
    if (!sum_to(call.device, out, grad)) return false;
    if (negative && !negate(call.device, out, {out})) return false;
  }
  if (call.output(0) != nullptr && !sum_to(call.device, call.allocate(0), grad)) return false;
  return decomposed(call);
}
bool add_grad(Call& call) { return plain_grads(call, false); }
bool subtract_grad(Call& call) { return plain_grads(call, true); }

bool multiply_grad(Call& call) {
  static PointwiseStep multiply("mul");
  if (!takes(call, 2)) return false;
  const View x = call.view_of(0), y = call.view_of(1), grad = call.view_of(2);
  for (int i : {1, 0}) {
    if (call.output(i) == nullptr) continue;
    Summed part(call, *call.output(i), grad);
    if (!multiply(call.device, part.whole(), {grad, i == 1 ? x : y}) || !part.finish()) return false;
  }
  return decomposed(call);
}

// Inputs: x, y, out = x / y, and the gradient of out.
bool divide_grad(Call& call) {
  static PointwiseStep multiply("mul"), divide("div"), negate("neg");
  if (!takes(call, 3)) return false;
  const View y = call.view_of(1), quotient = call.view_of(2), grad = call.view_of(3);
  if (call.output(1) != nullptr) {
    Summed part(call, *call.output(1), grad);
    if (!multiply(call.device, part.whole(), {grad, quotient}) ||
        !divide(call.device, part.whole(), {part.whole(), y}) || !part.finish() ||
        !negate(call.device, part.out(), {part.out()})) {
      return false;
    }
  }
  if (call.output(0) != nullptr) {
    Summed part(call, *call.output(0), grad);
    if (!divide(call.device, part.whole(), {grad, y}) || !part.finish()) return false;
  }
  return decomposed(call);
}

// Inputs: x, y, and the gradient of the output. Each step takes them with the gradient in front.
bool two_grads(Call& call, PointwiseStep& of_x, PointwiseStep& of_y) {
  if (!takes_all(call, 2)) return false;
  const View x = call.view_of(0), y = call.view_of(1), grad = call.view_of(2);
  if (!x.defined() || !y.defined()) return false;
  for (int i : {1, 0}) {
    if (call.output(i) == nullptr) continue;
    Summed part(call, *call.output(i), grad);
    if (!(i == 1 ? of_y : of_x)(call.device, part.whole(), {grad, x, y}) || !part.finish()) return false;
  }
  return decomposed(call);
}

bool remainder_grad(Call& call) {
  static PointwiseStep of_y("remainder_backward_other");
  if (!takes_all(call, 2)) return false;
  const View x = call.view_of(0), y = call.view_of(1), grad = call.view_of(2);
  if (call.output(1) != nullptr) {
    if (!x.defined() || !y.defined()) return false;
    Summed part(call, *call.output(1), grad);
    if (!of_y(call.device, part.whole(), {grad, x, y}) || !part.finish()) return false;
  }
  if (call.output(0) != nullptr && !sum_to(call.device, call.allocate(0), grad)) return false;
  return decomposed(call);
}

// Inputs: condition, x, y, the gradient.
bool where_grad(Call& call) {
  static PointwiseStep where("where");
  const DenseTensor& condition = *call.input(0);
  if (!call.input(3)->initialized() || call.input(3)->numel() == 0 || !condition.initialized() ||
      !on_device(condition) || call.input(3)->dims().size() > kMaxDimensions || !call.service().able() ||
      to_core(call.kernel.dtype) == DType::kNone || is_complex(to_core(call.kernel.dtype))) {
    return false;
  }
  const View chosen = call.view_of(0), grad = call.view_of(3);
  const Temporary nothing(call.device, grad.dtype, 0, nullptr);
  if (!zero(call.device, nothing)) return false;
  for (int i : {1, 0}) {
    if (call.output(i) == nullptr) continue;
    Summed part(call, *call.output(i), grad);
    const bool done = i == 0 ? where(call.device, part.whole(), {chosen, grad, nothing})
                             : where(call.device, part.whole(), {chosen, nothing, grad});
    if (!done || !part.finish()) return false;
  }
  return decomposed(call);
}

// Inputs: x, y, weight, out, the gradient; the weight has none.
bool lerp_grad(Call& call) {
  static PointwiseStep of_x("lerp_backward_self"), multiply("mul");
  if (!call.input(4)->initialized() || call.input(4)->numel() == 0 || !call.input(2)->initialized() ||
      !on_device(*call.input(2)) || call.input(4)->dims().size() > kMaxDimensions || !call.service().able() ||
      !is_float(to_core(call.kernel.dtype))) {
    return false;
  }
  const View weight = call.view_of(2), grad = call.view_of(4);
  for (int i : {1, 0}) {
    if (call.output(i) == nullptr) continue;
    Summed part(call, *call.output(i), grad);
    if (!(i == 0 ? of_x : multiply)(call.device, part.whole(), {grad, weight}) || !part.finish()) return false;
  }
  return decomposed(call);
}

// Steps have no slope.
bool no_grad(Call& call) {
  if (to_core(call.kernel.dtype) == DType::kNone || !call.service().able()) return false;
  return zero(call.device, call.allocate(0)) && decomposed(call);
}
bool floor_grad(Call& call) { return no_grad(call); }
bool ceil_grad(Call& call) { return no_grad(call); }
bool round_grad(Call& call) { return no_grad(call); }
bool trunc_grad(Call& call) { return no_grad(call); }

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/pointwise.inc"
