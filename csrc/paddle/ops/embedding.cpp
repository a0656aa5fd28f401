// Embedding lookup and one-hot encoding.
#include "ops/creation.h"
#include "ops/index_views.h"
#include "ops/indexing.h"
#include "ops/scatter.h"
#include "ops/selection.h"

namespace hp::paddle_adapter::ops {
namespace {

// Zeros the rows of `out` whose index is `padding`.
bool zero_padding_rows(Call& call, const View& out, const View& indices, int64_t padding) {
  static PointwiseOp equal("eq");
  static StandardOp step("masked_fill");
  const int64_t rows = indices.numel(), width = out.numel() / rows, one[] = {1}, column[] = {rows, 1},
                sizes[] = {rows, width};
  const Temporary number(call.device, indices.dtype, 1, one), zero(call.device, out.dtype, 1, one);
  const Temporary mask(call.device, DType::kBool, 2, column);
  ShapedView wide(mask);
  return fill(call.device, number, padding) && fill(call.device, zero, 0) &&
         equal(call.device, mask, {ShapedView(indices.data, indices.dtype, 2, column), number}) &&
         hp::ops::masked_fill(step.on(call.device), call.device, ShapedView(out.data, out.dtype, 2, sizes),
                              wide.expand(2, sizes), zero);
}

// Inputs: indices, weight. Attribute: padding_idx, or -1 for none. Rows of that index are zero, whatever the weight.
bool embedding(Call& call) {
  if (!call.inputs_ready() || !is_index(*call.input(0)) || call.input(1)->numel() == 0) return false;
  const View indices = call.view_of(0), weight = call.view_of(1), out = call.allocate(0);
  if (out.numel() == 0) return true;
  const int64_t padding = call.integer(0);
  return hp::ops::embedding(call.binding(), call.device, out, weight, indices) &&
         (padding == -1 || zero_padding_rows(call, out, indices, padding));
}

// Inputs: indices, weight, out_grad.
bool embedding_grad(Call& call) {
  if (!is_ready(call.input(0)) || !is_ready(call.input(2)) || !is_index(*call.input(0)) ||
      !is_float(to_core(call.kernel.dtype)) || call.input(2)->numel() == 0) {
    return false;
  }
  const View indices = call.view_of(0), grad = call.view_of(2), out = call.allocate(0);
  const int64_t padding = call.integer(0), width = out.sizes[1], rows[] = {indices.numel(), width},
                flat[] = {indices.numel()};
  const bool done =
      fill(call.device, out, 0) &&
      hp::ops::embedding_dense_backward(call.binding(), call.device, out, ShapedView(grad.data, grad.dtype, 2, rows),
                                        ShapedView(indices.data, indices.dtype, 1, flat));
  if (!done || padding < 0 || padding >= out.sizes[0]) return done;
  char* const row = static_cast<char*>(out.data) + padding * width * info(out.dtype).bytes;
  return fill(call.device, ShapedView(row, out.dtype, 1, &width), 0);
}

// Attribute: num_classes. An index out of range gives a row of zeros. Paddle's tensor-parallel cross entropy needs
// that: each rank encodes the labels of all ranks.
bool one_hot(Call& call) {
  static StandardOp arange("arange");
  static PointwiseOp equal("eq");
  if (!call.inputs_ready() || !is_index(*call.input(0))) return false;
  const View indices = call.view_of(0), out = call.allocate(0);
  if (out.numel() == 0) return true;
  ShapedView column(indices);
  column.unsqueeze(indices.ndim);
  const int64_t classes[] = {out.sizes[out.ndim - 1]};
  if (out.ndim != column.ndim()) return false;
  const Temporary numbers(call.device, indices.dtype, 1, classes);
  const Temporary hits(call.device, DType::kBool, out.ndim, out.sizes);
  return hp::ops::arange(arange.on(call.device), call.device, numbers, int64_t{0}, int64_t{1}) &&
         equal(call.device, hits, {column, numbers}) && copy(copy_op.on(call.device), call.device, out, hits) &&
         count_decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/embedding.inc"
