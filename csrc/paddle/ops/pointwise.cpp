// The gradients of arithmetic between two tensors, each summed over the dimensions that were broadcast.
#include <optional>

#include "../parts.h"

namespace hp::paddle_adapter::ops {
namespace {

// Which of the kernel's arguments are what: the gradient of the output, and the attribute `axis`.
bool takes(const Call& call, int grad) {
  for (int i = 0; i <= grad; ++i) {
    const DenseTensor& tensor = *call.input(i);
    if (tensor.dims().size() > kMaxDimensions) return false;
    if (tensor.initialized() && (!on_device(tensor) || !tensor.meta().is_contiguous())) return false;
  }
  const DenseTensor &x = *call.input(0), &y = *call.input(1);
  // Another axis than the last ones is for tensors of unlike shapes only.
  return call.input(grad)->initialized() && is_float(to_core(call.kernel.dtype)) && call.service().able() &&
         (call.attr<int>(0) == -1 || x.dims() == y.dims());
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

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/pointwise.inc"
