#include "../../ops/loss.h"

#include "../../ops/reduction.h"
#include "../../ops/softmax.h"
#include "../parts.h"

namespace hp::paddle_adapter::ops {
namespace {

using hp::ops::Classes;
using hp::ops::PairLoss;
using hp::ops::Reduction;

bool takes(const Call& call) {
  return call.plain() && is_float(to_core(call.kernel.dtype)) && call.input(0)->numel() != 0;
}

int axis_of(int64_t axis, int ndim) { return static_cast<int>(axis < 0 ? axis + ndim : axis); }

Classes classes_of(const View& x, int axis) {
  Classes shape{1, x.sizes[axis], 1};
  for (int d = 0; d < x.ndim; ++d) {
    if (d != axis) (d < axis ? shape.batch : shape.places) *= x.sizes[d];
  }
  return shape;
}

// ---- Cross entropy of a softmax

// Attributes: soft_label, use_softmax, numeric_stable_mode, ignore_index, axis. Probabilities that were given are left
// to the CPU.
struct CrossEntropy {
  explicit CrossEntropy(const Call& call, int ndim)
      : soft(call.attr<bool>(0)), ignored(call.integer(3)), axis(axis_of(call.integer(4), ndim)) {}
  bool soft;
  int64_t ignored;
  int axis;
};

bool labels_fit(const CrossEntropy& given, const View& label, const View& x) {
  if (given.soft) return is_float(label.dtype) && same_sizes(label, x);
  return is_integer(label.dtype) && label.numel() * x.sizes[given.axis] == x.numel();
}

// loss = -sum(label * logarithms)
bool soft_loss(Device& device, const View& loss, const View& label, const View& logarithms, int axis) {
  static PointwiseStep multiply("mul"), negate("neg");
  static Step sum("sum");
  return multiply(device, logarithms, {logarithms, label}) &&
         hp::ops::sum(sum.on(device), device, loss, logarithms, uint64_t{1} << axis, true) &&
         negate(device, loss, {loss});
}

// Inputs: logits, label. Outputs: softmax, loss.
bool cross_entropy_with_softmax(Call& call) {
  if (!takes(call) || !call.attr<bool>(1) || call.input(0)->dims().size() == 0) return false;
  static Step normalise("softmax"), logarithm("log_softmax"), choose("nll_loss");
  const View x = call.view_of(0), label = call.view_of(1);
  const CrossEntropy given(call, x.ndim);
  if (!labels_fit(given, label, x)) return false;
  const View softmax = call.allocate(0), loss = call.allocate(1);
  // Both may be of a wider dtype than the logits.
  const Temporary logarithms(call.device, loss.dtype, x.ndim, x.sizes);
  if (!hp::ops::softmax(normalise.on(call.device), call.device, softmax, x, given.axis, false) ||
      !hp::ops::softmax(logarithm.on(call.device), call.device, logarithms, x, given.axis, true)) {
    return false;
  }
  const bool done = given.soft ? soft_loss(call.device, loss, label, logarithms, given.axis)
                               : hp::ops::nll_loss(choose.on(call.device), call.device, loss, {}, logarithms, label, {},
                                                   classes_of(x, given.axis), Reduction::kNone, given.ignored);
  return done && decomposed(call);
}

// Inputs: label, softmax, loss_grad. With classes as labels: the gradient of the chosen logarithm, less the softmax
// times its sum, which is zero where the label is ignored.
bool cross_entropy_with_softmax_grad(Call& call) {
  if (!takes(call) || !call.attr<bool>(1) || call.input(1)->dims().size() == 0) return false;
  static Step choose("nll_loss_backward"), sum("sum");
  static PointwiseStep subtract("sub"), multiply("mul"), add_product("addcmul");
  const View label = call.view_of(0), softmax = call.view_of(1), grad = call.view_of(2);
  const CrossEntropy given(call, softmax.ndim);
  if (!labels_fit(given, label, softmax)) return false;
  // Of 16-bit logits the loss is of single precision, the softmax perhaps not.
  Converted slope(call.device, grad, softmax.dtype);
  if (!slope.read()) return false;
  const View out = call.allocate(0);
  if (given.soft) {
    return subtract(call.device, out, {softmax, label}, {1}) && multiply(call.device, out, {out, slope}) &&
           decomposed(call);
  }
  std::array<int64_t, 16> sizes;
  std::copy_n(softmax.sizes, softmax.ndim, sizes.begin());
  sizes[given.axis] = 1;
  const Temporary sums(call.device, softmax.dtype, softmax.ndim, sizes.data());
  // Not in place: the softmax may lie in the output's memory.
  const Temporary chosen(call.device, softmax.dtype, softmax.ndim, softmax.sizes);
  return hp::ops::nll_loss_backward(choose.on(call.device), call.device, chosen, slope, softmax, label, {}, {},
                                    classes_of(softmax, given.axis), Reduction::kNone, given.ignored) &&
         hp::ops::sum(sum.on(call.device), call.device, sums, chosen, uint64_t{1} << given.axis, true) &&
         add_product(call.device, out, {chosen, softmax, sums}, {-1}) && decomposed(call);
}

// ---- The logarithm of a class's probability

bool read_reduction(const std::string& name, Reduction& reduction) {
  if (name != "none" && name != "mean" && name != "sum") return false;
  reduction = name == "none" ? Reduction::kNone : name == "mean" ? Reduction::kMean : Reduction::kSum;
  return true;
}

bool nll_takes(const Call& call) {
  const int ndim = call.input(0)->dims().size();
  return takes(call) && (ndim == 2 || ndim == 4);
}

// out /= total, where that is not zero.
bool divide_unless_zero(Device& device, const View& out, const View& total) {
  static PointwiseStep equal("eq"), choose("where"), divide("div");
  const int64_t one[] = {1};
  const Temporary zero(device, total.dtype, 1, one), quotient(device, out.dtype, 1, one);
  const Temporary none(device, DType::kBool, 1, one);
  const Shaped result(out.data, out.dtype, 1, one), divisor(total.data, total.dtype, 1, one);
  return fill(device, zero, 0) && equal(device, none, {divisor, zero}) && divide(device, quotient, {result, divisor}) &&
         choose(device, result, {none, zero, quotient});
}

// Inputs: input, label, weight. Attributes: ignore_index, reduction. Outputs: out, total_weight.
bool nll_loss(Call& call) {
  Reduction reduction;
  if (!nll_takes(call) || !read_reduction(call.attr<std::string>(1), reduction)) return false;
  const View x = call.view_of(0), out = call.allocate(0), total = call.allocate(1);
  // The mean over nothing is zero here, so that it is taken apart from the sum.
  const bool mean = reduction == Reduction::kMean;
  return hp::ops::nll_loss(call.service(), call.device, out, total, x, call.view_of(1), call.view_of(2),
                           classes_of(x, 1), mean ? Reduction::kSum : reduction, call.integer(0)) &&
         (!mean || divide_unless_zero(call.device, out, total));
}

// Inputs: input, label, weight, total_weight, out_grad.
bool nll_loss_grad(Call& call) {
  Reduction reduction;
  if (!nll_takes(call) || !read_reduction(call.attr<std::string>(1), reduction)) return false;
  const View x = call.view_of(0), out = call.allocate(0);
  return hp::ops::nll_loss_backward(call.service(), call.device, out, call.view_of(4), x, call.view_of(1),
                                    call.view_of(2), call.view_of(3), classes_of(x, 1), reduction, call.integer(0));
}

// ---- Losses of pairs

bool bce_loss(Call& call) {
  if (!takes(call)) return false;
  return hp::ops::pair_loss(call.service(), call.device, PairLoss::kBinaryCrossEntropy, call.allocate(0),
                            call.view_of(0), call.view_of(1), {}, Reduction::kNone, 0);
}

// Inputs: input, label, out_grad.
bool bce_loss_grad(Call& call) {
  if (!takes(call)) return false;
  return hp::ops::pair_loss_backward(call.service(), call.device, PairLoss::kBinaryCrossEntropy, call.allocate(0),
                                     call.view_of(2), call.view_of(0), call.view_of(1), {}, Reduction::kNone, 0);
}

// Inputs: input, label. Attribute: delta. Outputs: out, and residual = label - input.
bool huber_loss(Call& call) {
  static PointwiseStep subtract("sub");
  if (!takes(call) || call.input(0)->dims() != call.input(1)->dims()) return false;
  const View x = call.view_of(0), label = call.view_of(1), out = call.allocate(0);
  if (!hp::ops::pair_loss(call.service(), call.device, PairLoss::kHuber, out, x, label, {}, Reduction::kNone,
                          call.real(0))) {
    return false;
  }
  return call.output(1) == nullptr || subtract(call.device, call.allocate(1), {label, x}, {1});
}

// Inputs: residual, out_grad. Outputs: the gradients of input and label.
bool huber_loss_grad(Call& call) {
  static PointwiseStep clamp("clamp"), multiply("mul"), negate("neg");
  if (!takes(call)) return false;
  const View residual = call.view_of(0), grad = call.view_of(1);
  const double delta = call.real(0);
  const Temporary slope(call.device, residual.dtype, residual.ndim, residual.sizes);
  if (!clamp(call.device, slope, {residual}, {-delta, delta}) || !multiply(call.device, slope, {slope, grad})) {
    return false;
  }
  static Step copying("copy");
  if (call.output(0) != nullptr && !negate(call.device, call.allocate(0), {slope})) return false;
  if (call.output(1) != nullptr && !copy(copying.on(call.device), call.device, call.allocate(1), slope)) return false;
  return decomposed(call);
}

// ---- Binary cross entropy of a sigmoid

// Inputs: x, label, pos_weight. Attributes: normalize, ignore_index.
bool sigmoid_takes(const Call& call) {
  return takes(call) && !call.attr<bool>(0) && call.input(0)->dims() == call.input(1)->dims() &&
         call.input(1)->dtype() == call.input(0)->dtype();
}

// weight = 1 + (pos_weight - 1) * label, of the part that grows with wrong negatives.
bool positive_weight(Call& call, const View& weight, const View& label) {
  static PointwiseStep scale("scale"), multiply("mul");
  return scale(call.device, weight, {call.view_of(2)}, {1, -1}) && multiply(call.device, weight, {weight, label}) &&
         scale(call.device, weight, {weight}, {1, 1});
}

// Zero where the label is to be ignored.
bool skip_ignored(Call& call, const View& out, const View& label) {
  static PointwiseStep equal("eq"), choose("where");
  const int64_t one[] = {1};
  const Temporary number(call.device, label.dtype, 1, one), zero(call.device, out.dtype, 1, one);
  const Temporary ignored(call.device, DType::kBool, out.ndim, out.sizes);
  return fill(call.device, number, call.integer(1)) && fill(call.device, zero, 0) &&
         equal(call.device, ignored, {label, number}) && choose(call.device, out, {ignored, zero, out});
}

// (1 - label) x + weight log(1 + exp(-x))
bool sigmoid_cross_entropy_with_logits(Call& call) {
  static PointwiseStep negate("neg"), softplus("softplus"), multiply("mul"), add("add"), add_product("addcmul");
  if (!sigmoid_takes(call)) return false;
  const View x = call.view_of(0), label = call.view_of(1), out = call.allocate(0);
  const Temporary smooth(call.device, x.dtype, x.ndim, x.sizes);
  // log(1 + exp(z)) is z to the last bit beyond this.
  const double straight = x.dtype == DType::kF64 ? 40 : 20;
  if (!negate(call.device, smooth, {x}) || !softplus(call.device, smooth, {smooth}, {1, straight})) return false;
  if (call.input(2) != nullptr) {
    const Temporary weight(call.device, x.dtype, x.ndim, x.sizes);
    if (!positive_weight(call, weight, label) || !multiply(call.device, smooth, {smooth, weight})) return false;
  }
  return add(call.device, smooth, {smooth, x}, {1}) && add_product(call.device, out, {smooth, label, x}, {-1}) &&
         skip_ignored(call, out, label) && decomposed(call);
}

// Inputs: x, label, pos_weight, out_grad. The derivative is (1 - label) - weight (1 - sigmoid(x)).
bool sigmoid_cross_entropy_with_logits_grad(Call& call) {
  static PointwiseStep negate("neg"), sigmoid("sigmoid"), multiply("mul"), add("add"), scale("scale");
  if (!sigmoid_takes(call)) return false;
  const View x = call.view_of(0), label = call.view_of(1), grad = call.view_of(3), out = call.allocate(0);
  const Temporary slope(call.device, x.dtype, x.ndim, x.sizes);
  if (!negate(call.device, slope, {x}) || !sigmoid(call.device, slope, {slope})) return false;
  if (call.input(2) != nullptr) {
    const Temporary weight(call.device, x.dtype, x.ndim, x.sizes);
    if (!positive_weight(call, weight, label) || !multiply(call.device, slope, {slope, weight})) return false;
  }
  // 1 - (label + weight sigmoid(-x))
  return add(call.device, slope, {slope, label}, {1}) && scale(call.device, slope, {slope}, {-1, -1}) &&
         multiply(call.device, out, {slope, grad}) && skip_ignored(call, out, label) && decomposed(call);
}

// ---- Labels that are not quite certain

// Inputs: label, prior_dist. Attribute: epsilon, which is shared out among the classes.
bool label_smooth(Call& call) {
  static PointwiseStep scale("scale");
  if (!takes(call) || call.input(1) != nullptr || call.input(0)->dims().size() == 0) return false;
  const View label = call.view_of(0), out = call.allocate(0);
  const double share = call.real(0), kept = 1 - share;
  const double each = share / static_cast<double>(label.sizes[label.ndim - 1]);
  return scale(call.device, out, {label}, {kept, each}, 1) && decomposed(call);
}

bool label_smooth_grad(Call& call) {
  static PointwiseStep scale("scale");
  return takes(call) && scale(call.device, call.allocate(0), {call.view_of(0)}, {1 - call.real(0), 0}) &&
         decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/loss.inc"
