#include "ops/loss.h"

#include "dispatch/composition.h"
#include "ops/reduction.h"
#include "ops/softmax.h"

namespace hp::paddle_adapter::ops {
namespace {

using hp::ops::ClassificationShape;
using hp::ops::ElementwiseLoss;
using hp::ops::LossReduction;

bool supports_loss(const Call& call) {
  return call.inputs_ready() && is_float(to_core(call.kernel.dtype)) && call.input(0)->numel() != 0;
}

ClassificationShape classes_of(const View& x, int axis) {
  ClassificationShape shape{1, x.sizes[axis], 1};
  for (int d = 0; d < x.ndim; ++d) {
    if (d != axis) (d < axis ? shape.batch : shape.positions) *= x.sizes[d];
  }
  return shape;
}

// ---- Softmax cross entropy

// Attributes: soft_label, use_softmax, numeric_stable_mode, ignore_index, axis. Without use_softmax (the input holds
// probabilities), the CPU tier serves the call.
struct CrossEntropy {
  explicit CrossEntropy(const Call& call, int ndim)
      : soft(call.attr<bool>(0)), ignored(call.integer(3)), axis(static_cast<int>(wrap_dim(call.integer(4), ndim))) {}
  bool soft;
  int64_t ignored;
  int axis;
};

bool labels_fit(const CrossEntropy& options, const View& label, const View& x) {
  if (options.soft) return is_float(label.dtype) && same_sizes(label, x);
  return is_integer(label.dtype) && label.numel() * x.sizes[options.axis] == x.numel();
}

// loss = -sum(label * logarithms), overwriting the logarithms.
bool soft_loss(Device& device, const View& loss, const View& label, const View& logarithms, int axis) {
  static PointwiseOp multiply("mul"), negate("neg");
  static StandardOp sum("sum");
  return multiply(device, logarithms, {logarithms, label}) &&
         hp::ops::sum(sum.on(device), device, loss, logarithms, uint64_t{1} << axis, true) &&
         negate(device, loss, {loss});
}

// Inputs: logits, label. Outputs: softmax, loss.
bool cross_entropy_with_softmax(Call& call) {
  if (!supports_loss(call) || !call.attr<bool>(1) || call.input(0)->dims().size() == 0) return false;
  static StandardOp normalize("softmax"), logarithm("log_softmax"), choose("nll_loss");
  const View x = call.view_of(0), label = call.view_of(1);
  const CrossEntropy options(call, x.ndim);
  if (!labels_fit(options, label, x)) return false;
  const View softmax = call.allocate(0), loss = call.allocate(1);
  // The outputs may have a wider dtype than the logits.
  const Temporary logarithms(call.device, loss.dtype, x.ndim, x.sizes);
  // The softmax comes last: it may share memory with the logits.
  if (!hp::ops::softmax(logarithm.on(call.device), call.device, logarithms, x, options.axis, true) ||
      !hp::ops::softmax(normalize.on(call.device), call.device, softmax, x, options.axis, false)) {
    return false;
  }
  const bool done = options.soft
                        ? soft_loss(call.device, loss, label, logarithms, options.axis)
                        : hp::ops::nll_loss(choose.on(call.device), call.device, loss, {}, logarithms, label, {},
                                            classes_of(x, options.axis), LossReduction::kNone, options.ignored);
  return done && count_decomposed(call);
}

// Inputs: label, softmax, loss_grad. With class labels, the result is g - softmax * sum(g), where g is the gradient
// with respect to the log-probabilities; sum(g) is zero for ignored labels.
bool cross_entropy_with_softmax_grad(Call& call) {
  if (!supports_loss(call) || !call.attr<bool>(1) || call.input(1)->dims().size() == 0) return false;
  static StandardOp choose("nll_loss_backward"), sum("sum");
  static PointwiseOp subtract("sub"), multiply("mul"), add_product("addcmul");
  const View label = call.view_of(0), softmax = call.view_of(1), grad = call.view_of(2);
  const CrossEntropy options(call, softmax.ndim);
  if (!labels_fit(options, label, softmax)) return false;
  // For 16-bit logits the loss is float32, but the softmax may be 16-bit.
  Converted slope(call.device, grad, softmax.dtype);
  if (!slope.read()) return false;
  const View out = call.allocate(0);
  if (options.soft) {
    return subtract(call.device, out, {softmax, label}, {1}) && multiply(call.device, out, {out, slope}) &&
           count_decomposed(call);
  }
  std::array<int64_t, 16> sizes;
  std::copy_n(softmax.sizes, softmax.ndim, sizes.begin());
  sizes[options.axis] = 1;
  const Temporary sums(call.device, softmax.dtype, softmax.ndim, sizes.data());
  // Not in place: the output may share memory with the softmax.
  const Temporary chosen(call.device, softmax.dtype, softmax.ndim, softmax.sizes);
  return hp::ops::nll_loss_backward(choose.on(call.device), call.device, chosen, slope, softmax, label, {}, {},
                                    classes_of(softmax, options.axis), LossReduction::kNone, options.ignored) &&
         hp::ops::sum(sum.on(call.device), call.device, sums, chosen, uint64_t{1} << options.axis, true) &&
         add_product(call.device, out, {chosen, softmax, sums}, {-1}) && count_decomposed(call);
}

// ---- Negative log-likelihood

bool read_reduction(const std::string& name, LossReduction& reduction) {
  if (name != "none" && name != "mean" && name != "sum") return false;
  reduction = name == "none" ? LossReduction::kNone : name == "mean" ? LossReduction::kMean : LossReduction::kSum;
  return true;
}

bool supports_nll(const Call& call) {
  const int ndim = call.input(0)->dims().size();
  return supports_loss(call) && (ndim == 2 || ndim == 4);
}

// out = total == 0 ? 0 : out / total
bool divide_unless_zero(Device& device, const View& out, const View& total) {
  static PointwiseOp equal("eq"), choose("where"), divide("div");
  const int64_t one[] = {1};
  const Temporary zero(device, total.dtype, 1, one), quotient(device, out.dtype, 1, one);
  const Temporary is_zero(device, DType::kBool, 1, one);
  const ShapedView result(out.data, out.dtype, 1, one), divisor(total.data, total.dtype, 1, one);
  return fill(device, zero, 0) && equal(device, is_zero, {divisor, zero}) &&
         divide(device, quotient, {result, divisor}) && choose(device, result, {is_zero, zero, quotient});
}

// Inputs: input, label, weight. Attributes: ignore_index, reduction. Outputs: out, total_weight.
bool nll_loss(Call& call) {
  LossReduction reduction;
  if (!supports_nll(call) || !read_reduction(call.attr<std::string>(1), reduction)) return false;
  const View x = call.view_of(0), out = call.allocate(0), total = call.allocate(1);
  // Paddle's mean over no elements is 0, not NaN: compute the sum, then divide.
  const bool mean = reduction == LossReduction::kMean;
  return hp::ops::nll_loss(call.binding(), call.device, out, total, x, call.view_of(1), call.view_of(2),
                           classes_of(x, 1), mean ? LossReduction::kSum : reduction, call.integer(0)) &&
         (!mean || divide_unless_zero(call.device, out, total)) &&
         (reduction != LossReduction::kNone || fill(call.device, total, 0));
}

// Inputs: input, label, weight, total_weight, out_grad.
bool nll_loss_grad(Call& call) {
  LossReduction reduction;
  if (!supports_nll(call) || !read_reduction(call.attr<std::string>(1), reduction)) return false;
  const View x = call.view_of(0), out = call.allocate(0);
  return hp::ops::nll_loss_backward(call.binding(), call.device, out, call.view_of(4), x, call.view_of(1),
                                    call.view_of(2), call.view_of(3), classes_of(x, 1), reduction, call.integer(0));
}

// ---- Elementwise losses

bool bce_loss(Call& call) {
  if (!supports_loss(call)) return false;
  return hp::ops::elementwise_loss(call.binding(), call.device, ElementwiseLoss::kBinaryCrossEntropy, call.allocate(0),
                                   call.view_of(0), call.view_of(1), {}, LossReduction::kNone, 0);
}

// Inputs: input, label, out_grad.
bool bce_loss_grad(Call& call) {
  if (!supports_loss(call)) return false;
  return hp::ops::elementwise_loss_backward(call.binding(), call.device, ElementwiseLoss::kBinaryCrossEntropy,
                                            call.allocate(0), call.view_of(2), call.view_of(0), call.view_of(1), {},
                                            LossReduction::kNone, 0);
}

// Inputs: input, label. Attribute: delta. Outputs: out, and residual = label - input.
bool huber_loss(Call& call) {
  static PointwiseOp subtract("sub");
  if (!supports_loss(call) || call.input(0)->dims() != call.input(1)->dims()) return false;
  const View x = call.view_of(0), label = call.view_of(1), out = call.allocate(0);
  if (!hp::ops::elementwise_loss(call.binding(), call.device, ElementwiseLoss::kHuber, out, x, label, {},
                                 LossReduction::kNone, call.real(0))) {
    return false;
  }
  return call.output(1) == nullptr || subtract(call.device, call.allocate(1), {label, x}, {1});
}

// Inputs: residual, out_grad. Outputs: the gradients of input and label.
bool huber_loss_grad(Call& call) {
  static PointwiseOp clamp("clamp"), multiply("mul"), negate("neg");
  if (!supports_loss(call)) return false;
  const View residual = call.view_of(0), grad = call.view_of(1);
  const double delta = call.real(0);
  const Temporary slope(call.device, residual.dtype, residual.ndim, residual.sizes);
  if (!clamp(call.device, slope, {residual}, {-delta, delta}) || !multiply(call.device, slope, {slope, grad})) {
    return false;
  }
  if (call.output(0) != nullptr && !negate(call.device, call.allocate(0), {slope})) return false;
  if (call.output(1) != nullptr && !copy(copy_op.on(call.device), call.device, call.allocate(1), slope)) return false;
  return count_decomposed(call);
}

// ---- Kullback-Leibler divergence. Attributes: reduction, log_target.

// The factor of the sum of all elements. False if the reduction is unknown.
bool divergence_factor(const std::string& reduction, const View& x, double& factor) {
  if (reduction != "none" && reduction != "sum" && reduction != "mean" && reduction != "batchmean") return false;
  const bool mean = reduction == "mean", batch = reduction == "batchmean" && x.ndim != 0;
  factor = mean ? 1.0 / static_cast<double>(x.numel()) : batch ? 1.0 / static_cast<double>(x.sizes[0]) : 1.0;
  return true;
}

// Inputs: x, label.
bool kldiv_loss(Call& call) {
  static PointwiseOp divergence("kl_div"), scale("scale");
  static StandardOp sum("sum");
  double factor;
  if (!supports_loss(call) || call.input(0)->dims() != call.input(1)->dims()) return false;
  const auto& reduction = call.attr<std::string>(0);
  const View x = call.view_of(0), label = call.view_of(1);
  if (!divergence_factor(reduction, x, factor)) return false;
  const View out = call.allocate(0);
  const uint32_t variant = call.attr<bool>(1) ? 1 : 0;
  if (reduction == "none") return divergence(call.device, out, {x, label}, {}, variant) && count_decomposed(call);
  const Temporary each(call.device, x.dtype, x.ndim, x.sizes);
  const ShapedView total(out.data, out.dtype, 0, nullptr);
  return divergence(call.device, each, {x, label}, {}, variant) &&
         hp::ops::sum(sum.on(call.device), call.device, total, each, dim_mask({}, x.ndim), false) &&
         scale(call.device, total, {total}, {factor, 0}, 1) && count_decomposed(call);
}

// Inputs: x, label, out_grad.
bool kldiv_loss_grad(Call& call) {
  static PointwiseOp slope("kl_div_backward"), scale("scale");
  double factor;
  const View label = call.view_of(1);
  if (!is_ready(call.input(1)) || !is_ready(call.input(2)) || label.numel() == 0 || !is_float(label.dtype))
    return false;
  if (!divergence_factor(call.attr<std::string>(0), label, factor)) return false;
  const View given = call.view_of(2), out = call.allocate(0);
  ShapedView grad(given);
  if (given.numel() == 1) grad = ShapedView(given.data, given.dtype, 0, nullptr);
  if (!slope(call.device, out, {grad.expand(label.ndim, label.sizes), label}, {}, call.attr<bool>(1) ? 1 : 0)) {
    return false;
  }
  return (factor == 1 || scale(call.device, out, {out}, {factor, 0}, 1)) && count_decomposed(call);
}

// ---- Sigmoid binary cross entropy

// Inputs: x, label, pos_weight, the factor of the log term, of any shape that broadcasts. Attributes: normalize,
// ignore_index.
bool supports_sigmoid(const Call& call) {
  return supports_loss(call) && !call.attr<bool>(0) && call.input(0)->dims() == call.input(1)->dims() &&
         call.input(1)->dtype() == call.input(0)->dtype();
}

// Sets `out` to 0 where the label is ignore_index.
bool zero_ignored(Call& call, const View& out, const View& label) {
  static PointwiseOp equal("eq"), choose("where");
  const int64_t one[] = {1};
  const Temporary number(call.device, label.dtype, 1, one), zero(call.device, out.dtype, 1, one);
  const Temporary ignored(call.device, DType::kBool, out.ndim, out.sizes);
  return fill(call.device, number, call.integer(1)) && fill(call.device, zero, 0) &&
         equal(call.device, ignored, {label, number}) && choose(call.device, out, {ignored, zero, out});
}

// (1 - label) x + weight log(1 + exp(-x))
bool sigmoid_cross_entropy_with_logits(Call& call) {
  static PointwiseOp negate("neg"), softplus("softplus"), multiply("mul"), add("add"), add_product("addcmul");
  if (!supports_sigmoid(call)) return false;
  const View x = call.view_of(0), label = call.view_of(1), out = call.allocate(0);
  const Temporary smooth(call.device, x.dtype, x.ndim, x.sizes);
  // Above this, log(1 + exp(z)) rounds to z.
  const double threshold = x.dtype == DType::kF64 ? 40 : 20;
  if (!negate(call.device, smooth, {x}) || !softplus(call.device, smooth, {smooth}, {1, threshold})) return false;
  if (call.input(2) != nullptr && !multiply(call.device, smooth, {smooth, call.view_of(2)})) return false;
  return add(call.device, smooth, {smooth, x}, {1}) && add_product(call.device, out, {smooth, label, x}, {-1}) &&
         zero_ignored(call, out, label) && count_decomposed(call);
}

// Inputs: x, label, pos_weight, out_grad. The derivative is (1 - label) - weight (1 - sigmoid(x)).
bool sigmoid_cross_entropy_with_logits_grad(Call& call) {
  static PointwiseOp negate("neg"), sigmoid("sigmoid"), multiply("mul"), add("add"), scale("scale");
  if (!supports_sigmoid(call)) return false;
  const View x = call.view_of(0), label = call.view_of(1), grad = call.view_of(3), out = call.allocate(0);
  const Temporary slope(call.device, x.dtype, x.ndim, x.sizes);
  if (!negate(call.device, slope, {x}) || !sigmoid(call.device, slope, {slope})) return false;
  if (call.input(2) != nullptr && !multiply(call.device, slope, {slope, call.view_of(2)})) return false;
  // 1 - (label + weight sigmoid(-x))
  return add(call.device, slope, {slope, label}, {1}) && scale(call.device, slope, {slope}, {-1, -1}) &&
         multiply(call.device, out, {slope, grad}) && zero_ignored(call, out, label) && count_decomposed(call);
}

// ---- Label smoothing

// out = (1 - epsilon) * label + epsilon / classes. Inputs: label, prior_dist (not supported). Attribute: epsilon.
bool label_smooth(Call& call) {
  static PointwiseOp scale("scale");
  if (!supports_loss(call) || call.input(1) != nullptr || call.input(0)->dims().size() == 0) return false;
  const View label = call.view_of(0), out = call.allocate(0);
  const double epsilon = call.real(0), per_class = epsilon / static_cast<double>(label.sizes[label.ndim - 1]);
  return scale(call.device, out, {label}, {1 - epsilon, per_class}, 1) && count_decomposed(call);
}

bool label_smooth_grad(Call& call) {
  static PointwiseOp scale("scale");
  return supports_loss(call) && scale(call.device, call.allocate(0), {call.view_of(0)}, {1 - call.real(0), 0}) &&
         count_decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/loss.inc"
