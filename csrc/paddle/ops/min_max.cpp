#include "ops/min_max.h"

#include "dispatch/composition.h"
#include "ops/reduction.h"

namespace hp::paddle_adapter::ops {
namespace {

using ArgReduction = bool(const OpBinding&, Device&, const View& indices, const View& self, int64_t dim, bool keepdim);

// Attributes: axis, keepdims, flatten, dtype.
bool arg_reduce(Call& call, ArgReduction& reduce) {
  const DenseTensor& x = *call.input(0);
  if (!call.inputs_ready() || x.numel() == 0 || is_complex(to_core(x.dtype())) || x.dims().size() > kMaxKernelRank) {
    return false;
  }
  const phi::DataType index_dtype = call.attr<phi::DataType>(3);
  if (index_dtype != phi::DataType::INT32 && index_dtype != phi::DataType::INT64) return false;
  call.context.Alloc(call.output(0), index_dtype);
  const View input = call.view_of(0), out = view(*call.output(0));
  const bool flat = call.attr<bool>(2) || input.ndim == 0;
  const int64_t elements[] = {input.numel()};
  const ShapedView self = flat ? ShapedView(input.data, input.dtype, 1, elements) : ShapedView(input);
  const int64_t axis = flat ? 0 : call.integer(0);
  // The kernel gets a keepdim shape, whichever dimensions of size 1 the output has.
  Converted indices(call.device, out, DType::kI64);
  std::array<int64_t, 16> sizes;
  std::copy_n(self.view().sizes, self.view().ndim, sizes.begin());
  const int64_t dim = wrap_dim(axis, self.view().ndim);
  sizes[dim] = 1;
  const ShapedView keepdim(indices.view().data, DType::kI64, self.view().ndim, sizes.data());
  return reduce(call.binding(), call.device, keepdim, self, dim, true) && indices.write();
}
bool argmax(Call& call) { return arg_reduce(call, hp::ops::argmax); }
bool argmin(Call& call) { return arg_reduce(call, hp::ops::argmin); }

// Inputs: the top-k values (not used), their class indices, the labels. Outputs: accuracy, correct, total.
bool accuracy(Call& call) {
  static PointwiseOp equal("eq"), scale("scale");
  static StandardOp any("any"), sum("sum");
  if (!is_ready(call.input(1)) || !is_ready(call.input(2))) return false;
  const View chosen = call.view_of(1), label = call.view_of(2);
  if (chosen.ndim != 2 || label.numel() != chosen.sizes[0] || chosen.numel() == 0 || !is_integer(label.dtype)) {
    return false;
  }
  const int64_t rows = chosen.sizes[0], column[] = {rows, 1}, one[] = {1};
  const ShapedView label_column(label.data, label.dtype, 2, column);
  Converted labels(call.device, label_column, chosen.dtype);
  const Temporary hits(call.device, DType::kBool, 2, chosen.sizes), found(call.device, DType::kBool, 1, column);
  const Temporary count(call.device, DType::kI64, 1, one);
  Device& device = call.device;
  if (!labels.read() || !equal(device, hits, {chosen, labels}) ||
      !hp::ops::any(any.on(device), device, found, hits, 2, false) ||
      !hp::ops::sum(sum.on(device), device, count, found, 1, true)) {
    return false;
  }
  const auto flat = [&](int i) {
    const View out = call.allocate(i);
    return ShapedView(out.data, out.dtype, 1, one);
  };
  const ShapedView accuracy = flat(0), correct = flat(1), total = flat(2);
  return copy(copy_op.on(device), device, correct, count) && copy(copy_op.on(device), device, accuracy, count) &&
         scale(device, accuracy, {accuracy}, {1 / static_cast<double>(rows), 0}) && fill(device, total, rows) &&
         count_decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/min_max.inc"
