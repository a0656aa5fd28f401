// Pointwise functions of two tensors with an attribute `axis`: the dimension of the longer shape at which the shorter
// one starts; -1 aligns their ends.
#include "dispatch/composition.h"

namespace hp::paddle_adapter::ops {
namespace {

// Appends dimensions of size 1 to the shorter shape. False if it does not fit.
bool align(ShapedView& longer, ShapedView& shorter, int64_t axis) {
  if (axis < 0 || longer.ndim() == shorter.ndim()) return true;
  const int64_t end = longer.ndim() - axis;
  while (shorter.ndim() > end && shorter.ndim() > 0 && shorter.size(shorter.ndim() - 1) == 1) {
    shorter.drop(shorter.ndim() - 1);
  }
  if (shorter.ndim() > end) return false;
  while (shorter.ndim() < end) shorter.unsqueeze(shorter.ndim());
  return true;
}

bool run(Call& call, PointwiseOp& op, std::initializer_list<double> attributes = {}, uint32_t variant = 0) {
  if (!call.inputs_ready() || call.output(0)->numel() <= 0 || !op.on(call.device).can_serve()) return false;
  const View x = call.view_of(0), y = call.view_of(1);
  if (x.ndim > kMaxKernelRank || y.ndim > kMaxKernelRank) return false;
  ShapedView a(x), b(y);
  if (!(x.ndim >= y.ndim ? align(a, b, call.integer(0)) : align(b, a, call.integer(0)))) return false;
  return op(call.device, call.allocate(0), {a, b}, attributes, variant) && count_decomposed(call);
}

bool add_raw(Call& call) {
  static PointwiseOp op("add");
  return run(call, op, {1});
}
bool subtract_raw(Call& call) {
  static PointwiseOp op("sub");
  return run(call, op, {1});
}
bool multiply_raw(Call& call) {
  static PointwiseOp op("mul");
  return run(call, op);
}
bool divide_raw(Call& call) {
  static PointwiseOp op("div");
  return is_float(to_core(call.kernel.dtype)) && run(call, op);
}
bool floor_divide_raw(Call& call) {
  static PointwiseOp op("div");
  constexpr uint32_t kFloor = 2;
  return run(call, op, {}, kFloor);
}
bool remainder_raw(Call& call) {
  static PointwiseOp op("remainder");
  return run(call, op);
}
bool elementwise_pow_raw(Call& call) {
  static PointwiseOp op("pow");
  return run(call, op);
}
bool maximum_raw(Call& call) {
  static PointwiseOp op("maximum");
  return run(call, op);
}
bool minimum_raw(Call& call) {
  static PointwiseOp op("minimum");
  return run(call, op);
}
bool equal_raw(Call& call) {
  static PointwiseOp op("eq");
  return run(call, op);
}
bool not_equal_raw(Call& call) {
  static PointwiseOp op("ne");
  return run(call, op);
}
bool less_than_raw(Call& call) {
  static PointwiseOp op("lt");
  return run(call, op);
}
bool less_equal_raw(Call& call) {
  static PointwiseOp op("le");
  return run(call, op);
}
bool greater_than_raw(Call& call) {
  static PointwiseOp op("gt");
  return run(call, op);
}
bool greater_equal_raw(Call& call) {
  static PointwiseOp op("ge");
  return run(call, op);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/pointwise_axis.inc"
