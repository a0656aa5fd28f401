#include "../../ops/extremes.h"

#include "../../ops/reduction.h"
#include "../parts.h"

namespace hp::paddle_adapter::ops {
namespace {

using Extreme = bool(const Service&, Device&, const View& places, const View& self, int64_t dim, bool keepdim);

// Attributes: axis, keepdims, flatten, dtype.
bool place_of(Call& call, Extreme& extreme) {
  const DenseTensor& x = *call.input(0);
  if (!call.plain() || x.numel() == 0 || is_complex(to_core(x.dtype())) || x.dims().size() > kMaxDimensions) {
    return false;
  }
  const phi::DataType wanted = call.attr<phi::DataType>(3);
  if (wanted != phi::DataType::INT32 && wanted != phi::DataType::INT64) return false;
  call.context.Alloc(call.output(0), wanted);
  const View given = call.view_of(0), out = view(*call.output(0));
  const bool flat = call.attr<bool>(2) || given.ndim == 0;
  const int64_t elements[] = {given.numel()};
  const Shaped self = flat ? Shaped(given.data, given.dtype, 1, elements) : Shaped(given);
  const int64_t axis = flat ? 0 : call.integer(0);
  // One place for each row, whatever dimensions of one element the output has.
  Converted places(call.device, out, DType::kI64);
  std::array<int64_t, 16> sizes;
  std::copy_n(self.view().sizes, self.view().ndim, sizes.begin());
  const int64_t dim = axis < 0 ? axis + self.view().ndim : axis;
  sizes[dim] = 1;
  const Shaped kept(places.view().data, DType::kI64, self.view().ndim, sizes.data());
  return extreme(call.service(), call.device, kept, self, dim, true) && places.write();
}
bool argmax(Call& call) { return place_of(call, hp::ops::argmax); }
bool argmin(Call& call) { return place_of(call, hp::ops::argmin); }

// Inputs: the k best values, their classes, and the label of each row. Outputs: accuracy, correct, total.
bool accuracy(Call& call) {
  static PointwiseStep equal("eq"), scale("scale");
  static Step any("any"), sum("sum"), copying("copy");
  if (!ready(call.input(1)) || !ready(call.input(2))) return false;
  const View chosen = call.view_of(1), label = call.view_of(2);
  if (chosen.ndim != 2 || label.numel() != chosen.sizes[0] || chosen.numel() == 0 || !is_integer(label.dtype)) {
    return false;
  }
  const int64_t rows = chosen.sizes[0], column[] = {rows, 1}, one[] = {1};
  const Shaped given(label.data, label.dtype, 2, column);
  Converted labels(call.device, given, chosen.dtype);
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
    return Shaped(out.data, out.dtype, 1, one);
  };
  const Shaped accuracy = flat(0), correct = flat(1), total = flat(2);
  return copy(copying.on(device), device, correct, count) && copy(copying.on(device), device, accuracy, count) &&
         scale(device, accuracy, {accuracy}, {1 / static_cast<double>(rows), 0}) && fill(device, total, rows) &&
         decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/extremes.inc"
