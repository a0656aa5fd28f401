// Rows of a table, and rows with a one in them.
#include "../../ops/creation.h"
#include "../../ops/indexing.h"
#include "../../ops/scatter.h"
#include "../../ops/selection.h"
#include "../parts.h"

namespace hp::paddle_adapter::ops {
namespace {

bool is_index(const DenseTensor& tensor) {
  return tensor.dtype() == phi::DataType::INT64 || tensor.dtype() == phi::DataType::INT32;
}

// Zero in the rows of out whose index is `skipped`.
bool skip_rows(Call& call, const View& out, const View& indices, int64_t skipped) {
  static PointwiseStep equal("eq");
  static Step step("masked_fill");
  const int64_t rows = indices.numel(), width = out.numel() / rows, one[] = {1}, column[] = {rows, 1},
                sizes[] = {rows, width};
  const Temporary number(call.device, indices.dtype, 1, one), zero(call.device, out.dtype, 1, one);
  const Temporary mask(call.device, DType::kBool, 2, column);
  Shaped wide(mask);
  return fill(call.device, number, skipped) && fill(call.device, zero, 0) &&
         equal(call.device, mask, {Shaped(indices.data, indices.dtype, 2, column), number}) &&
         hp::ops::masked_fill(step.on(call.device), call.device, Shaped(out.data, out.dtype, 2, sizes),
                              wide.expand(2, sizes), zero);
}

// Inputs: indices, weight. Attribute: padding_idx, or -1. A row of that index is zero, whatever the weight says.
bool embedding(Call& call) {
  if (!call.plain() || !is_index(*call.input(0)) || call.input(1)->numel() == 0) return false;
  const View indices = call.view_of(0), weight = call.view_of(1), out = call.allocate(0);
  if (out.numel() == 0) return true;
  const int64_t padding = call.integer(0);
  return hp::ops::embedding(call.service(), call.device, out, weight, indices) &&
         (padding == -1 || skip_rows(call, out, indices, padding));
}

// Inputs: indices, weight, out_grad.
bool embedding_grad(Call& call) {
  if (!ready(call.input(0)) || !ready(call.input(2)) || !is_index(*call.input(0)) ||
      !is_float(to_core(call.kernel.dtype)) || call.input(2)->numel() == 0) {
    return false;
  }
  const View indices = call.view_of(0), grad = call.view_of(2), out = call.allocate(0);
  const int64_t padding = call.integer(0), width = out.sizes[1], rows[] = {indices.numel(), width},
                flat[] = {indices.numel()};
  const bool done =
      fill(call.device, out, 0) &&
      hp::ops::embedding_dense_backward(call.service(), call.device, out, Shaped(grad.data, grad.dtype, 2, rows),
                                        Shaped(indices.data, indices.dtype, 1, flat));
  if (!done || padding < 0 || padding >= out.sizes[0]) return done;
  char* const row = static_cast<char*>(out.data) + padding * width * info(out.dtype).bytes;
  return fill(call.device, Shaped(row, out.dtype, 1, &width), 0);
}

// Attribute: num_classes. An index outside gives zeros.
bool one_hot(Call& call) {
  static Step numbers("arange"), copying("copy");
  static PointwiseStep equal("eq");
  if (!call.plain() || !is_index(*call.input(0))) return false;
  const View indices = call.view_of(0), out = call.allocate(0);
  if (out.numel() == 0) return true;
  Shaped column(indices);
  column.unsqueeze(indices.ndim);
  const int64_t classes[] = {out.sizes[out.ndim - 1]};
  if (out.ndim != column.ndim()) return false;
  const Temporary each(call.device, indices.dtype, 1, classes);
  const Temporary hits(call.device, DType::kBool, out.ndim, out.sizes);
  return hp::ops::arange(numbers.on(call.device), call.device, each, int64_t{0}, int64_t{1}) &&
         equal(call.device, hits, {column, each}) && copy(copying.on(call.device), call.device, out, hits) &&
         decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/embedding.inc"
