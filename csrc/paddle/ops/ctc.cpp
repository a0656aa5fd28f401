#include "dispatch/composition.h"
#include "ops/creation.h"
#include "ops/loss.h"
#include "ops/softmax.h"

namespace hp::paddle_adapter::ops {
namespace {

// Sets column `column` of `lengths` (batch x 3) to `given`, clamped to `most`: larger lengths would leave the tensors.
bool set_lengths(Device& device, const View& lengths, int column, const View& given, int64_t most) {
  static PointwiseOp clamp("clamp");
  ShapedView to(lengths);
  to.narrow(1, column, 1).drop(1);
  const Temporary limited(device, DType::kI64, 1, lengths.sizes);
  const ShapedView from(given.data, given.dtype, 1, lengths.sizes);
  return copy(copy_op.on(device), device, limited, from) &&
         clamp(device, limited, {limited}, {0, static_cast<double>(most)}) &&
         copy(copy_op.on(device), device, to, limited);
}

// Column 2 of `lengths`: where the labels of each batch element start, `stride` apart.
bool set_offsets(Device& device, const View& lengths, int64_t stride) {
  static StandardOp copy_op("copy"), arange("arange");
  ShapedView to(lengths);
  to.narrow(1, 2, 1).drop(1);
  const Temporary offsets(device, DType::kI64, 1, lengths.sizes);
  return hp::ops::arange(arange.on(device), device, offsets, int64_t{0}, stride) &&
         copy(copy_op.on(device), device, to, offsets);
}

// An alignment that does not exist has loss 0 and no gradient, as in Paddle.
bool zero_impossible(Device& device, const View& loss) {
  static PointwiseOp infinite("isposinf"), choose("where");
  const int64_t one[] = {1};
  const Temporary zero(device, loss.dtype, 1, one), impossible(device, DType::kBool, 1, loss.sizes);
  return fill(device, zero, 0) && infinite(device, impossible, {loss}) &&
         choose(device, loss, {impossible, zero, loss});
}

// Inputs: logits (steps x batch x labels), label (batch x most), their lengths. Attributes: blank, norm_by_times.
// Outputs: loss, and its gradient. Without lengths the sequences are a LoD, which the CPU tier takes.
bool warpctc(Call& call) {
  static StandardOp logarithm("log_softmax"), ctc("ctc_loss"), ctc_backward("ctc_loss_backward");
  if (!call.inputs_ready() || call.input(2) == nullptr || call.input(3) == nullptr) return false;
  const View logits = call.view_of(0), label = call.view_of(1);
  Device& device = call.device;
  if (logits.ndim != 3 || label.ndim != 2 || logits.numel() == 0 || label.sizes[0] != logits.sizes[1]) return false;
  if (call.input(2)->numel() != logits.sizes[1] || call.input(3)->numel() != logits.sizes[1]) return false;
  const int64_t batch = logits.sizes[1], most = label.sizes[1];
  if (call.integer(0) < 0 || call.integer(0) >= logits.sizes[2]) return false;

  const int64_t table[] = {batch, 3}, states[] = {batch, logits.sizes[0], 2 * most + 1};
  const Temporary lengths(device, DType::kI64, 2, table), alpha(device, logits.dtype, 3, states);
  const Temporary logs(device, logits.dtype, 3, logits.sizes), ones(device, logits.dtype, 1, &batch);
  if (!set_lengths(device, lengths, 0, call.view_of(2), logits.sizes[0]) ||
      !set_lengths(device, lengths, 1, call.view_of(3), most) || !set_offsets(device, lengths, most) ||
      !fill(device, ones, 1) || !hp::ops::softmax(logarithm.on(device), device, logs, logits, 2, true)) {
    return false;
  }
  const hp::ops::CtcTargets targets{label, lengths, 1, call.integer(0)};
  const View out = call.allocate(0);
  call.output(1)->Resize(call.input(0)->dims());
  const View grad = call.allocate(1);
  const ShapedView loss(out.data, out.dtype, 1, &batch);
  return hp::ops::ctc_loss(ctc.on(device), device, loss, alpha, logs, targets) &&
         hp::ops::ctc_loss_backward(ctc_backward.on(device), device, grad, ones, logs, targets, loss, alpha, true) &&
         zero_impossible(device, loss) && count_decomposed(call);
}

// Inputs: logits, logits_length, warpctcgrad, loss_grad. Attributes: blank, norm_by_times.
bool warpctc_grad(Call& call) {
  static PointwiseOp multiply("mul"), divide("div");
  const View grad = call.view_of(2), given = call.view_of(3);
  if (!is_ready(call.input(2)) || !is_ready(call.input(3)) || !is_ready(call.input(1)) || grad.ndim != 3) return false;
  const int64_t batch = grad.sizes[1], row[] = {1, batch, 1};
  if (given.numel() != batch || grad.numel() == 0) return false;
  const ShapedView loss_grad(given.data, given.dtype, 3, row);
  const View out = call.allocate(0);
  if (!call.attr<bool>(1)) return multiply(call.device, out, {grad, loss_grad}) && count_decomposed(call);
  const View given_steps = call.view_of(1);
  const ShapedView steps(given_steps.data, given_steps.dtype, 3, row);
  Converted times(call.device, steps, grad.dtype);
  const Temporary scaled(call.device, grad.dtype, 3, row);
  return times.read() && divide(call.device, scaled, {loss_grad, times}) &&
         multiply(call.device, out, {grad, scaled}) && count_decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/ctc.inc"
