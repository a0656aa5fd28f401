// Fake quantization: values rounded to the grid of a quantized tensor. Gradients pass straight through.
#include "dispatch/composition.h"
#include "ops/reduction.h"

namespace hp::paddle_adapter::ops {
namespace {

const int64_t kOne[] = {1};
constexpr uint32_t kBiasLast = 1;  // the variant of `scale` that multiplies before it adds

// The only rounding served here is to the nearest level, halves away from zero (round_type 1).
bool supports_quantization(const Call& call, int round_type) {
  return is_ready(call.input(0)) && call.input(0)->numel() != 0 && is_float(to_core(call.kernel.dtype)) &&
         call.integer(round_type) == 1;
}

// Views a tensor of one element, whatever its rank, as a vector.
ShapedView element(const View& view) { return {view.data, view.dtype, 1, kOne}; }

// out = max |x|
bool largest_magnitude(Device& device, const View& out, const View& x) {
  static PointwiseOp magnitude("abs");
  static StandardOp largest("amax");
  const int64_t sizes[] = {x.numel()};
  const Temporary magnitudes(device, x.dtype, 1, sizes);
  return magnitude(device, magnitudes, {ShapedView(x.data, x.dtype, 1, sizes)}) &&
         hp::ops::amax(largest.on(device), device, out, magnitudes, 1, true);
}

// out = levels / scale, with a scale of zero replaced by 1e-6 as in Paddle.
bool levels_per_unit(Device& device, const View& out, const View& scale, double levels) {
  static PointwiseOp at_most("le"), choose("where"), invert("reciprocal"), multiply("scale");
  const Temporary smallest(device, out.dtype, 1, kOne), instead(device, out.dtype, 1, kOne);
  const Temporary is_zero(device, DType::kBool, 1, kOne);
  return fill(device, smallest, 1e-30) && fill(device, instead, 1e-6) && at_most(device, is_zero, {scale, smallest}) &&
         choose(device, out, {is_zero, instead, scale}) && invert(device, out, {out}) &&
         multiply(device, out, {out}, {levels, 0});
}

// out = x, clipped to [-scale, scale] and rounded to a multiple of scale / levels.
bool round_to_levels(Device& device, const View& out, const View& x, const View& scale, double levels) {
  static PointwiseOp negate("neg"), lower("maximum"), upper("minimum"), multiply("mul"), truncate("trunc");
  static PointwiseOp subtract("sub"), add("add"), multiply_by("scale");
  const Temporary minus(device, out.dtype, 1, kOne), factor(device, out.dtype, 1, kOne);
  const Temporary value(device, out.dtype, x.ndim, x.sizes), whole(device, out.dtype, x.ndim, x.sizes);
  // The nearest integer, halves away from zero: trunc(v) + trunc(2 (v - trunc(v))), where every step is exact.
  return negate(device, minus, {scale}) && levels_per_unit(device, factor, scale, levels) &&
         lower(device, value, {x, minus}) && upper(device, value, {value, scale}) &&
         multiply(device, value, {value, factor}) && truncate(device, whole, {value}) &&
         subtract(device, value, {value, whole}, {1}) && multiply_by(device, value, {value}, {2, 0}) &&
         truncate(device, value, {value}) && add(device, value, {value, whole}, {1}) &&
         multiply(device, value, {value, scale}) && multiply_by(device, out, {value}, {1 / levels, 0});
}

double levels_of(int64_t bits) { return static_cast<double>((int64_t{1} << (bits - 1)) - 1); }

// Attributes: bit_length, round_type. Outputs: out, scale.
bool fake_quantize_dequantize_abs_max(Call& call) {
  if (!supports_quantization(call, 1)) return false;
  const View x = call.view_of(0), out = call.allocate(0);
  const ShapedView scale = element(call.allocate(1));
  return largest_magnitude(call.device, scale, x) &&
         round_to_levels(call.device, out, x, scale, levels_of(call.integer(0))) && count_decomposed(call);
}

// Inputs: x, scale, accum, state. Attributes: moving_rate, bit_length, is_test, round_type. Outputs: out, scale, state,
// accum, which may share memory with the inputs.
bool fake_quantize_dequantize_moving_average_abs_max(Call& call) {
  static PointwiseOp multiply_add("scale"), add("add"), divide("div");
  if (!supports_quantization(call, 3) || !is_ready(call.input(1))) return false;
  const bool training = !call.attr<bool>(2);
  for (int i : {2, 3}) {
    if (training && (!is_ready(call.input(i)) || call.output(i) == nullptr || call.input(i)->numel() != 1))
      return false;
  }
  if (call.input(1)->numel() != 1 || (training && call.output(1) == nullptr)) return false;
  Device& device = call.device;
  const View x = call.view_of(0);
  const double levels = levels_of(call.integer(1)), rate = call.real(0);
  if (!training) {
    return round_to_levels(device, call.allocate(0), x, element(call.view_of(1)), levels) && count_decomposed(call);
  }
  const Temporary largest(device, x.dtype, 1, kOne), decayed(device, x.dtype, 1, kOne);
  const ShapedView old_accum = element(call.view_of(2)), old_state = element(call.view_of(3));
  const View out = call.allocate(0);
  const ShapedView scale = element(call.allocate(1)), state = element(call.allocate(2));
  const ShapedView accum = element(call.allocate(3));
  return largest_magnitude(device, largest, x) && multiply_add(device, decayed, {old_accum}, {rate, 0}) &&
         multiply_add(device, state, {old_state}, {rate, 1}, kBiasLast) &&
         add(device, accum, {decayed, largest}, {1}) && divide(device, scale, {accum, state}) &&
         round_to_levels(device, out, x, scale, levels) && count_decomposed(call);
}

bool pass_gradient(Call& call) {
  return is_ready(call.input(0)) && copy(copy_op.on(call.device), call.device, call.allocate(0), call.view_of(0)) &&
         count_decomposed(call);
}

bool fake_channel_wise_quantize_dequantize_abs_max_grad(Call& call) { return pass_gradient(call); }
bool fake_quantize_dequantize_abs_max_grad(Call& call) { return pass_gradient(call); }
bool fake_quantize_dequantize_moving_average_abs_max_grad(Call& call) { return pass_gradient(call); }

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/quantization.inc"
