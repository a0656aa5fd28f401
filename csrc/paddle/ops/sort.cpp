#include "../../ops/sort.h"

#include "../../ops/scatter.h"
#include "../parts.h"

namespace hp::paddle_adapter::ops {
namespace {

int64_t axis_of(int64_t axis, int ndim) { return axis < 0 ? axis + ndim : axis; }

bool takes(const Call& call) {
  const DenseTensor& x = *call.input(0);
  return call.plain() && x.numel() != 0 && x.dims().size() > 0 && !is_complex(to_core(call.kernel.dtype));
}

// The gradient goes to the places that were chosen; no two are the same.
bool put_back(Call& call, const View& indices, const View& grad, int64_t axis) {
  static Step step("scatter");
  if (grad.ndim == 0) return false;
  const View out = call.allocate(0);
  return fill(call.device, out, 0) &&
         hp::ops::scatter(step.on(call.device), call.device, out, indices, grad, axis_of(axis, out.ndim),
                          hp::ops::Write::kSet) &&
         decomposed(call);
}

// Attributes: k, axis, largest, sorted. Outputs: out, indices.
bool topk(Call& call) {
  if (!takes(call)) return false;
  const View x = call.view_of(0), out = call.allocate(0), indices = call.allocate(1);
  if (out.numel() == 0) return true;
  const int64_t axis = axis_of(call.integer(1), x.ndim);
  if (out.ndim != x.ndim || indices.dtype != DType::kI64) return false;
  return hp::ops::topk(call.service(), call.device, out, indices, x, out.sizes[axis], axis, call.attr<bool>(2),
                       call.attr<bool>(3));
}

// Inputs: x, indices, out_grad. Attributes: k, axis, largest, sorted.
bool topk_grad(Call& call) {
  if (!ready(call.input(1)) || !ready(call.input(2)) || call.input(2)->numel() == 0) return false;
  return put_back(call, call.view_of(1), call.view_of(2), call.integer(1));
}

// Attributes: axis, descending, stable. Outputs: out, indices.
bool argsort(Call& call) {
  if (!takes(call)) return false;
  const View x = call.view_of(0), out = call.allocate(0), indices = call.allocate(1);
  return hp::ops::sort(call.service(), call.device, out, indices, x, axis_of(call.integer(0), x.ndim),
                       call.attr<bool>(1), call.attr<bool>(2));
}

// Inputs: indices, x, out_grad. Attributes: axis, descending, stable.
bool argsort_grad(Call& call) {
  if (!ready(call.input(0)) || !ready(call.input(2)) || call.input(2)->numel() == 0) return false;
  return put_back(call, call.view_of(0), call.view_of(2), call.integer(0));
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/sort.inc"
