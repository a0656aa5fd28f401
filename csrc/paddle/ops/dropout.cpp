#include "dispatch/composition.h"
#include "ops/generator.h"
#include "ops/random.h"

namespace hp::paddle_adapter::ops {
namespace {

bool scaled(Call& call, const View& out, const View& x, double factor) {
  static PointwiseOp scale("scale");
  if (factor == 1) return copy(copy_op.on(call.device), call.device, out, x);
  return scale(call.device, out, {x}, {factor, 0});
}

bool upscales(const Call& call, int attribute) { return call.attr<std::string>(attribute) == "upscale_in_train"; }

// Factor of the elements kept in training; 1 in mode `downgrade_in_infer`.
double kept_scale(bool upscale, double p) { return !upscale ? 1 : p == 1 ? 0 : 1 / (1 - p); }

bool supports_dropout(const Call& call) { return call.inputs_ready() && is_float(to_core(call.kernel.dtype)); }

View as_bool(View mask) {
  mask.dtype = DType::kBool;
  return mask;
}

// Inputs: x, seed_tensor. Attributes: p, is_test, mode, seed, fix_seed. Outputs: out, mask of bytes.
bool dropout(Call& call) {
  if (!supports_dropout(call) || call.input(1) != nullptr) return false;
  const double p = call.real(0);
  const View x = call.view_of(0), out = call.allocate(0);
  if (out.numel() == 0) {
    if (call.output(1) != nullptr) call.allocate(1);
    return true;
  }
  if (call.attr<bool>(1)) return scaled(call, out, x, upscales(call, 2) ? 1 : 1 - p) && count_decomposed(call);
  if (call.output(1) == nullptr) return false;
  static StandardOp draw("dropout"), apply("dropout_backward");
  const View mask = as_bool(call.allocate(1));
  const uint64_t blocks = hp::ops::blocks_for_32bit(x.numel());
  const PhiloxState philox =
      call.attr<bool>(4) ? PhiloxState{static_cast<uint64_t>(call.integer(3)), 0} : take_blocks(call, blocks);
  if (!hp::ops::dropout(draw.on(call.device), call.device, out, mask, x, p, philox)) return false;
  // The kernel upscales. In the other mode, apply the mask again without a factor.
  if (!upscales(call, 2) && !hp::ops::dropout_backward(apply.on(call.device), call.device, out, x, mask, 1)) {
    return false;
  }
  return count_decomposed(call);
}

// Inputs: mask, out_grad. Attributes: p, is_test, mode.
bool dropout_grad(Call& call) {
  const double p = call.real(0);
  const bool upscale = upscales(call, 2);
  if (!is_ready(call.input(1)) || !is_float(to_core(call.kernel.dtype))) return false;
  const View grad = call.view_of(1), out = call.allocate(0);
  if (out.numel() == 0) return true;
  if (call.attr<bool>(1)) return scaled(call, out, grad, upscale ? 1 : 1 - p) && count_decomposed(call);
  if (!is_ready(call.input(0))) return false;
  static StandardOp step("dropout_backward");
  return hp::ops::dropout_backward(step.on(call.device), call.device, out, grad, as_bool(call.view_of(0)),
                                   kept_scale(upscale, p)) &&
         count_decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/dropout.inc"
