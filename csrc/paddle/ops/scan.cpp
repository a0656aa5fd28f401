// Running totals, in either direction, with each element itself or without.
#include "../../ops/scan.h"

#include <optional>

#include "../../ops/shape.h"
#include "../parts.h"

namespace hp::paddle_adapter::ops {
namespace {

struct ScanOf {
  int64_t dim;
  bool exclusive, reverse;
};

// out = the totals of x; both contiguous, of one shape and dtype. `first` is what a scan without the element begins
// with.
bool scan(Call& call, hp::ops::Scan& scanner, const Service& service, View out, View x, const ScanOf& how, int first) {
  static Step flipping("flip"), copying("copy");
  static PointwiseStep scale("scale");
  Device& device = call.device;
  const int64_t dims[] = {how.dim};
  const Temporary turned(device, x.dtype, x.ndim, x.sizes);
  std::optional<Temporary> totals;
  View from = x, to = out;
  if (how.reverse) {
    if (!hp::ops::flip(flipping.on(device), device, turned, x, dims, 1)) return false;
    from = turned;
  }
  if (how.reverse || how.exclusive) to = totals.emplace(device, x.dtype, x.ndim, x.sizes);
  if (!scanner(service, device, to, from, how.dim)) return false;
  if (how.exclusive) {
    // Each total one place later.
    const int d = static_cast<int>(how.dim);
    Shaped before(to);
    View target = how.reverse ? turned.view() : out;
    Shaped start(target), later(target);
    start.narrow(d, 0, 1);
    later.narrow(d, 1, x.sizes[d] - 1);
    before.narrow(d, 0, x.sizes[d] - 1);
    if (!zero(device, start) || (first != 0 && !scale(device, start, {start}, {0, static_cast<double>(first)}, 1)) ||
        !copy(copying.on(device), device, later, before)) {
      return false;
    }
    to = target;
  }
  return !how.reverse || hp::ops::flip(flipping.on(device), device, out, to, dims, 1);
}

bool takes(const Call& call, const DenseTensor& x) {
  return call.plain() && x.numel() != 0 && x.dims().size() <= kMaxDimensions && call.service().able() &&
         to_core(call.kernel.dtype) != DType::kNone && x.dtype() == call.kernel.dtype &&
         call.output(0)->numel() == x.numel();
}

bool scan_along(Call& call, hp::ops::Scan& scanner, Step& step, const DenseTensor& x, int64_t axis, bool flat,
                bool exclusive, bool reverse, int first) {
  if (!takes(call, x)) return false;
  const DenseTensor before = x;
  const View from = view(before), out = call.allocate(0);
  if (out.dtype != from.dtype) return false;
  const int64_t all[] = {from.numel()};
  const Shaped row(from.data, from.dtype, 1, all), result(out.data, out.dtype, 1, all);
  const bool one = flat || from.ndim == 0;
  const ScanOf how{one ? 0 : axis < 0 ? axis + from.ndim : axis, exclusive, reverse};
  return scan(call, scanner, step.on(call.device), one ? result.view() : out, one ? row.view() : from, how, first) &&
         decomposed(call);
}

// Attributes: axis, flatten, exclusive, reverse.
bool cumsum(Call& call) {
  static Step step("cumsum");
  return scan_along(call, hp::ops::cumsum, step, *call.input(0), call.integer(0), call.attr<bool>(1),
                    call.attr<bool>(2), call.attr<bool>(3), 0);
}
// Each element is in the totals from it on.
bool cumsum_grad(Call& call) {
  static Step step("cumsum");
  return scan_along(call, hp::ops::cumsum, step, *call.input(1), call.integer(0), call.attr<bool>(1),
                    call.attr<bool>(2), !call.attr<bool>(3), 0);
}
// Attributes: dim, exclusive, reverse.
bool cumprod(Call& call) {
  static Step step("cumprod");
  return scan_along(call, hp::ops::cumprod, step, *call.input(0), call.integer(0), false, call.attr<bool>(1),
                    call.attr<bool>(2), 1);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/scan.inc"
