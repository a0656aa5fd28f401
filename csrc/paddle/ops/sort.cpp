#include "ops/sort.h"

#include "dispatch/composition.h"
#include "ops/scatter.h"

namespace hp::paddle_adapter::ops {
namespace {

bool supports_sort(const Call& call) {
  const DenseTensor& x = *call.input(0);
  return call.inputs_ready() && x.numel() != 0 && x.dims().size() > 0 && !is_complex(to_core(call.kernel.dtype));
}

// Scatters the gradient to the positions that the indices were taken from. No two are the same.
bool scatter_to_input(Call& call, const View& indices, const View& grad, int64_t axis) {
  static StandardOp step("scatter");
  if (grad.ndim == 0) return false;
  const View out = call.allocate(0);
  return fill(call.device, out, 0) &&
         hp::ops::scatter(step.on(call.device), call.device, out, indices, grad, wrap_dim(axis, out.ndim),
                          hp::ops::ScatterOp::kSet) &&
         count_decomposed(call);
}

// Attributes: k, axis, largest, sorted. Outputs: out, indices.
bool topk(Call& call) {
  if (!supports_sort(call)) return false;
  const View x = call.view_of(0);
  const int64_t axis = wrap_dim(call.integer(1), x.ndim);
  auto dims = call.input(0)->dims();
  if (call.integer(0) < 1 || call.integer(0) > dims[axis]) return false;  // refused by Paddle's CPU kernel
  if (call.attr<phi::Scalar>(0).FromTensor()) {                           // not known when Paddle infers the shape
    dims[axis] = call.integer(0);
    for (int i : {0, 1}) call.output(i)->Resize(dims);
  }
  const View out = call.allocate(0), indices = call.allocate(1);
  if (out.numel() == 0) return true;
  if (out.ndim != x.ndim || indices.dtype != DType::kI64) return false;
  return hp::ops::topk(call.binding(), call.device, out, indices, x, out.sizes[axis], axis, call.attr<bool>(2),
                       call.attr<bool>(3));
}

// Inputs: x, indices, out_grad. Attributes: k, axis, largest, sorted.
bool topk_grad(Call& call) {
  if (!is_ready(call.input(1)) || !is_ready(call.input(2)) || call.input(2)->numel() == 0) return false;
  return scatter_to_input(call, call.view_of(1), call.view_of(2), call.integer(1));
}

// Attributes: axis, descending, stable. Outputs: out, indices.
bool argsort(Call& call) {
  if (!supports_sort(call)) return false;
  const View x = call.view_of(0), out = call.allocate(0), indices = call.allocate(1);
  return hp::ops::sort(call.binding(), call.device, out, indices, x, wrap_dim(call.integer(0), x.ndim),
                       call.attr<bool>(1), call.attr<bool>(2));
}

// Inputs: indices, x, out_grad. Attributes: axis, descending, stable.
bool argsort_grad(Call& call) {
  if (!is_ready(call.input(0)) || !is_ready(call.input(2)) || call.input(2)->numel() == 0) return false;
  return scatter_to_input(call, call.view_of(0), call.view_of(2), call.integer(0));
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/sort.inc"
