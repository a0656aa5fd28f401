// Windows, diagonals and channels: copies between views of the input and of the output.
#include "dispatch/composition.h"
#include "ops/call_copy.h"
#include "ops/reduction.h"

namespace hp::paddle_adapter::ops {
namespace {

bool supports_rearrange(const Call& call, const DenseTensor* tensor) {
  return is_ready(tensor) && tensor->numel() != 0 && tensor->dims().size() < kMaxKernelRank &&
         copy_op.on(call.device).can_serve();
}

// ---- crop. Input: x. Attributes: shape (-1: up to the end), offsets.

// Narrows `view` to `sizes` elements from `offsets` on; false if they do not fit.
bool narrow_to(ShapedView& view, const std::vector<int64_t>& sizes, const std::vector<int64_t>& offsets) {
  if (static_cast<int>(sizes.size()) != view.ndim() || offsets.size() != sizes.size()) return false;
  for (int d = 0; d < view.ndim(); ++d) {
    if (sizes[d] <= 0 || offsets[d] < 0 || offsets[d] + sizes[d] > view.size(d)) return false;
    view.narrow(d, offsets[d], sizes[d]);
  }
  return true;
}

bool crop(Call& call) {
  const DenseTensor* x = call.input(0);
  if (!supports_rearrange(call, x)) return false;
  std::vector<int64_t> sizes = call.integers(0);
  const std::vector<int64_t> offsets = call.integers(1);
  if (static_cast<int>(sizes.size()) != x->dims().size() || offsets.size() != sizes.size()) return false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == -1) sizes[d] = x->dims()[static_cast<int>(d)] - offsets[d];
  }
  ShapedView window(view(*x));
  if (!narrow_to(window, sizes, offsets)) return false;
  call.output(0)->Resize(common::make_ddim(sizes));
  return copy_to(call, call.allocate(0), window) && count_decomposed(call);
}

// Inputs: x (only its shape), out_grad. Attribute: offsets.
bool crop_grad(Call& call) {
  const DenseTensor* grad = call.input(1);
  if (!supports_rearrange(call, grad)) return false;
  const View from = view(*grad);
  const auto& dims = call.input(0)->dims();
  ShapedView window(nullptr, from.dtype, dims.size(), dims.Get());
  const std::vector<int64_t> sizes(from.sizes, from.sizes + from.ndim), offsets = call.integers(0);
  if (!narrow_to(window, sizes, offsets)) return false;
  call.output(0)->Resize(dims);
  const View out = call.allocate(0);
  window = ShapedView(out);
  return narrow_to(window, sizes, offsets) && zero(call.device, out) && copy_to(call, window, from) &&
         count_decomposed(call);
}

// ---- fill_diagonal of a matrix. Attributes: value, offset, wrap. Paddle fills the first `columns` rows only.

bool set_diagonal(Call& call, double value) {
  const DenseTensor* x = call.input(0);
  const int64_t offset = call.integer(1);
  if (!supports_rearrange(call, x) || x->dims().size() != 2 || call.attr<bool>(2)) return false;
  const int64_t rows = x->dims()[0], columns = x->dims()[1];
  const int64_t first = std::max<int64_t>(0, -offset), last = std::min({rows, columns, columns - offset});
  View out;
  if (!allocate_copy(call, *call.output(0), *x, out)) return false;
  if (first < last) {
    const int64_t sizes[] = {last - first};
    auto* data = static_cast<char*>(out.data) + (first * (columns + 1) + offset) * info(out.dtype).bytes;
    ShapedView diagonal(data, out.dtype, 1, sizes);
    diagonal.stride(0) = columns + 1;
    if (!fill(call.device, diagonal, phi::Scalar(value))) return false;
  }
  return count_decomposed(call);
}
bool fill_diagonal(Call& call) { return set_diagonal(call, call.real(0)); }
// Input: out_grad.
bool fill_diagonal_grad(Call& call) { return set_diagonal(call, 0); }

// ---- channel_shuffle. Attributes: groups, data_format.

// Transposes the channels, seen as a matrix of `rows` rows.
bool shuffle(Call& call, bool backward) {
  const DenseTensor* x = call.input(0);
  if (!supports_rearrange(call, x) || x->dims().size() != 4) return false;
  const bool last = call.attr<std::string>(1) == "NHWC";
  const int64_t channels = x->dims()[last ? 3 : 1], groups = call.integer(0);
  if (groups <= 0 || channels % groups != 0) return false;
  const int64_t rows = backward ? channels / groups : groups, outer = last ? x->numel() / channels : x->dims()[0];
  const int64_t inner = x->numel() / channels / outer;
  const int64_t before[] = {outer, rows, channels / rows, inner}, after[] = {outer, channels / rows, rows, inner};
  const View from = call.view_of(0), out = call.allocate(0);
  ShapedView to(out.data, out.dtype, 4, after);
  return copy_to(call, to.swap(1, 2), ShapedView(from.data, from.dtype, 4, before)) && count_decomposed(call);
}
bool channel_shuffle(Call& call) { return shuffle(call, false); }
bool channel_shuffle_grad(Call& call) { return shuffle(call, true); }

// ---- equal_all. Inputs: x, y.

bool equal_all(Call& call) {
  static PointwiseOp equal("eq");
  static StandardOp all("all");
  const DenseTensor *x = call.input(0), *y = call.input(1);
  if (!supports_rearrange(call, x) || !supports_rearrange(call, y) || x->dtype() != y->dtype()) return false;
  if (x->dims() != y->dims()) return zero(call.device, call.allocate(0)) && count_decomposed(call);
  const int64_t sizes[] = {x->numel()};
  const auto flat = [&](int i) { return ShapedView(call.view_of(i).data, call.view_of(i).dtype, 1, sizes); };
  const Temporary same(call.device, DType::kBool, 1, sizes);
  if (!equal(call.device, same, {flat(0), flat(1)})) return false;
  const View out = call.allocate(0);
  const ShapedView scalar(out.data, out.dtype, 0, nullptr);
  return hp::ops::all(all.on(call.device), call.device, scalar, same, 1, false) && count_decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/rearrange.inc"
