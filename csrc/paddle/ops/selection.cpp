// Selection by value. Most output sizes depend on the data, so these functions synchronize the stream.
#include "ops/selection.h"

#include <optional>

#include "dispatch/composition.h"
#include "ops/sort.h"

namespace hp::paddle_adapter::ops {
namespace {

using hp::ops::SelectionOffsets;

bool supports_selection(const Call& call) {
  return call.inputs_ready() && call.binding().portable_allowed && call.input(0)->numel() != 0 &&
         to_core(call.kernel.dtype) != DType::kNone && call.input(0)->dims().size() <= kMaxKernelRank;
}

bool nonzero(Call& call) {
  if (!supports_selection(call)) return false;
  const View x = call.view_of(0);
  const SelectionOffsets offsets = SelectionOffsets::of_nonzero(call.binding(), call.device, x);
  if (!offsets.available()) return false;
  DenseTensor& out = *call.output(0);
  out.Resize({offsets.total(), x.ndim});
  call.context.Alloc(&out, phi::DataType::INT64);
  return out.numel() == 0 || hp::ops::nonzero(call.binding(), call.device, view(out), x, offsets);
}

// Inputs: sorted_sequence, value. Attributes: out_int32, right.
bool searchsorted(Call& call) {
  if (!supports_selection(call) || call.input(1)->numel() == 0 || call.input(1)->dtype() != call.input(0)->dtype())
    return false;
  const View sorted = call.view_of(0), value = call.view_of(1);
  if (sorted.ndim == 0 || value.ndim == 0) return false;
  return hp::ops::searchsorted(call.binding(), call.device, call.allocate(0), sorted, value, {}, call.attr<bool>(1));
}

// The mask broadcast to the sizes of x; `ok` is false if no kernel could copy it.
class Mask {
 public:
  Mask(Call& call, const View& mask, const View& x) : view_(mask) {
    if (same_sizes(mask, x)) return;
    ShapedView expanded(mask);
    dense_.emplace(call.device, mask.dtype, x.ndim, x.sizes);
    ok = copy(copy_op.on(call.device), call.device, *dense_, expanded.expand(x.ndim, x.sizes));
    view_ = *dense_;
  }
  operator const View&() const { return view_; }
  bool ok = true;

 private:
  View view_;
  std::optional<Temporary> dense_;
};
bool fits(const DenseTensor& mask, const DenseTensor& x) {
  if (mask.dtype() != phi::DataType::BOOL || mask.dims().size() > x.dims().size()) return false;
  for (int d = 1; d <= mask.dims().size(); ++d) {
    const int64_t size = mask.dims()[mask.dims().size() - d];
    if (size != 1 && size != x.dims()[x.dims().size() - d]) return false;
  }
  return true;
}

bool masked_select(Call& call) {
  if (!supports_selection(call) || !fits(*call.input(1), *call.input(0))) return false;
  const View x = call.view_of(0);
  const Mask mask(call, call.view_of(1), x);
  if (!mask.ok) return false;
  const SelectionOffsets offsets = SelectionOffsets::of_nonzero(call.binding(), call.device, mask);
  if (!offsets.available()) return false;
  DenseTensor& out = *call.output(0);
  out.Resize({offsets.total()});
  call.context.Alloc(&out, call.kernel.dtype);
  return out.numel() == 0 || hp::ops::masked_select(call.binding(), call.device, view(out), x, mask, offsets);
}

// Inputs: x, mask, out_grad.
bool masked_select_grad(Call& call) {
  static StandardOp masked_scatter_op("masked_scatter");
  const DenseTensor &x = *call.input(0), &mask_tensor = *call.input(1), &grad = *call.input(2);
  if (x.numel() == 0 || !fits(mask_tensor, x) || !mask_tensor.initialized() || !on_device(mask_tensor) ||
      (grad.numel() != 0 && !on_device(grad)) || !call.binding().portable_allowed || x.dims().size() > kMaxKernelRank ||
      to_core(call.kernel.dtype) == DType::kNone) {
    return false;
  }
  const View out = call.allocate(0);
  if (!zero(call.device, out)) return false;
  if (grad.numel() == 0) return count_decomposed(call);
  const Mask mask(call, call.view_of(1), out);
  const OpBinding& binding = masked_scatter_op.on(call.device);
  const SelectionOffsets offsets = SelectionOffsets::of_nonzero(binding, call.device, mask);
  return mask.ok && offsets.available() &&
         hp::ops::masked_scatter(binding, call.device, out, mask, call.view_of(2), offsets) && count_decomposed(call);
}

// Inputs: x, mask, value, out_grad.
bool masked_fill_grad(Call& call) {
  static PointwiseOp where("where");
  const DenseTensor &mask_tensor = *call.input(1), &grad = *call.input(3);
  if (!grad.initialized() || grad.numel() == 0 || !on_device(grad) || !mask_tensor.initialized() ||
      !on_device(mask_tensor) || !call.binding().can_serve() || grad.dims().size() > kMaxKernelRank ||
      !is_float(to_core(call.kernel.dtype))) {
    return false;
  }
  const View mask = view(mask_tensor), from = view(grad);
  const Temporary zeros(call.device, from.dtype, 0, nullptr);
  if (!zero(call.device, zeros)) return false;
  if (call.output(1) != nullptr) {
    const Temporary masked(call.device, from.dtype, from.ndim, from.sizes);
    if (!where(call.device, masked, {mask, from, zeros}) || !sum_to(call.device, call.allocate(1), masked))
      return false;
  }
  if (call.output(0) != nullptr) {
    const View out = call.allocate(0);
    const Temporary masked(call.device, from.dtype, from.ndim, from.sizes);
    if (!where(call.device, masked, {mask, zeros, from}) || !sum_to(call.device, out, masked)) return false;
  }
  return count_decomposed(call);
}

// Attributes: return_index, return_inverse, return_counts, axis, dtype. Outputs: out, indices, index, counts.
bool unique(Call& call) {
  static StandardOp sort_op("sort"), unique_op("unique");
  if (!supports_selection(call) || call.attr<bool>(0) || !call.integers(3).empty() ||
      call.attr<phi::DataType>(4) != phi::DataType::INT64 || is_complex(to_core(call.kernel.dtype))) {
    return false;
  }
  Device& device = call.device;
  const View x = call.view_of(0);
  const int64_t length[] = {x.numel()};
  const Temporary sorted(device, x.dtype, 1, length), order(device, DType::kI64, 1, length);
  if (!hp::ops::sort(sort_op.on(device), device, sorted, order, ShapedView(x.data, x.dtype, 1, length), 0, false,
                     true)) {
    return false;
  }
  const OpBinding& binding = unique_op.on(device);
  const SelectionOffsets offsets = SelectionOffsets::of_run_starts(binding, device, sorted);
  if (!offsets.available()) return false;
  const int64_t total = offsets.total();
  const auto allocate = [&](int i, int64_t size, phi::DataType dtype) {
    call.output(i)->Resize({size});
    call.context.Alloc(call.output(i), dtype);
    return view(*call.output(i));
  };
  const View out = allocate(0, total, call.kernel.dtype);
  View inverse, counts;
  if (call.attr<bool>(1)) inverse = allocate(2, length[0], phi::DataType::INT64);
  if (call.attr<bool>(2)) counts = allocate(3, total, phi::DataType::INT64);
  return hp::ops::unique(binding, device, out, inverse, counts, sorted, order, offsets) && count_decomposed(call);
}

// Attributes: rows, columns, offset, dtype.
bool triangle(Call& call, bool upper) {
  const int64_t rows = call.integer(0), columns = call.integer(1), offset = call.integer(2);
  if (call.kernel.dtype != phi::DataType::INT64 || !call.binding().portable_allowed || rows <= 0 || columns <= 0)
    return false;
  const View out = call.allocate(0);
  if (out.numel() == 0) return true;
  // Only rows with an element in the triangle.
  int64_t first = 0, last = rows;
  if (upper) {
    last = std::min(rows, columns - offset);
  } else {
    first = std::max<int64_t>(0, -offset);
  }
  return hp::ops::triangle_indices(call.binding(), call.device, out, first, last - first, columns, offset, upper);
}
bool tril_indices(Call& call) { return triangle(call, false); }
bool triu_indices(Call& call) { return triangle(call, true); }

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/selection.inc"
