// Cumulative sums and products, forward or reverse, inclusive or exclusive.
#include "ops/scan.h"

#include <optional>

#include "dispatch/composition.h"
#include "ops/shape.h"

namespace hp::paddle_adapter::ops {
namespace {

struct ScanOptions {
  int64_t dim;
  bool exclusive, reverse;
};

// Both tensors are contiguous, of the same shape and dtype. An exclusive scan starts with `identity`.
bool scan(Call& call, hp::ops::Scan& scanner, const OpBinding& binding, View out, View x, const ScanOptions& options,
          int identity) {
  static StandardOp flip_op("flip");
  static PointwiseOp scale("scale");
  Device& device = call.device;
  const int64_t dims[] = {options.dim};
  const Temporary flipped(device, x.dtype, x.ndim, x.sizes);
  std::optional<Temporary> totals;
  View from = x, to = out;
  if (options.reverse) {
    if (!hp::ops::flip(flip_op.on(device), device, flipped, x, dims, 1)) return false;
    from = flipped;
  }
  if (options.reverse || options.exclusive) to = totals.emplace(device, x.dtype, x.ndim, x.sizes);
  if (!scanner(binding, device, to, from, options.dim)) return false;
  if (options.exclusive) {
    // Shift the results by one element.
    const int d = static_cast<int>(options.dim);
    ShapedView before(to);
    View target = options.reverse ? flipped.view() : out;
    ShapedView start(target), later(target);
    start.narrow(d, 0, 1);
    later.narrow(d, 1, x.sizes[d] - 1);
    before.narrow(d, 0, x.sizes[d] - 1);
    if (!zero(device, start) ||
        (identity != 0 && !scale(device, start, {start}, {0, static_cast<double>(identity)}, 1)) ||
        !copy(copy_op.on(device), device, later, before)) {
      return false;
    }
    to = target;
  }
  return !options.reverse || hp::ops::flip(flip_op.on(device), device, out, to, dims, 1);
}

bool supports_scan(const Call& call, const DenseTensor& x) {
  return call.inputs_ready() && x.numel() != 0 && x.dims().size() <= kMaxKernelRank && call.binding().can_serve() &&
         to_core(call.kernel.dtype) != DType::kNone && x.dtype() == call.kernel.dtype &&
         call.output(0)->numel() == x.numel();
}

bool scan_along(Call& call, hp::ops::Scan& scanner, StandardOp& step, const DenseTensor& x, int64_t axis, bool flat,
                bool exclusive, bool reverse, int identity) {
  if (!supports_scan(call, x)) return false;
  const DenseTensor before = x;
  const View from = view(before), out = call.allocate(0);
  if (out.dtype != from.dtype) return false;
  const int64_t length[] = {from.numel()};
  const ShapedView flat_x(from.data, from.dtype, 1, length), flat_out(out.data, out.dtype, 1, length);
  const bool as_vector = flat || from.ndim == 0;
  const ScanOptions options{as_vector ? 0 : axis < 0 ? axis + from.ndim : axis, exclusive, reverse};
  return scan(call, scanner, step.on(call.device), as_vector ? flat_out.view() : out, as_vector ? flat_x.view() : from,
              options, identity) &&
         count_decomposed(call);
}

// Attributes: axis, flatten, exclusive, reverse.
bool cumsum(Call& call) {
  static StandardOp step("cumsum");
  return scan_along(call, hp::ops::cumsum, step, *call.input(0), call.integer(0), call.attr<bool>(1),
                    call.attr<bool>(2), call.attr<bool>(3), 0);
}
// The gradient of a cumulative sum is the cumulative sum of the gradient in the other direction.
bool cumsum_grad(Call& call) {
  static StandardOp step("cumsum");
  return scan_along(call, hp::ops::cumsum, step, *call.input(1), call.integer(0), call.attr<bool>(1),
                    call.attr<bool>(2), !call.attr<bool>(3), 0);
}
// Attributes: dim, exclusive, reverse.
bool cumprod(Call& call) {
  static StandardOp step("cumprod");
  return scan_along(call, hp::ops::cumprod, step, *call.input(0), call.integer(0), false, call.attr<bool>(1),
                    call.attr<bool>(2), 1);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/scan.inc"
