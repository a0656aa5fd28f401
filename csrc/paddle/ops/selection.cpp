// Selecting by value: the sizes of outputs depend on the data.
#include "../../ops/selection.h"

#include <optional>

#include "../../ops/sort.h"
#include "../parts.h"

namespace hp::paddle_adapter::ops {
namespace {

using hp::ops::Places;

Step copying("copy");

bool takes(const Call& call) {
  return call.plain() && call.service().has_compiler && call.input(0)->numel() != 0 &&
         to_core(call.kernel.dtype) != DType::kNone && call.input(0)->dims().size() <= kMaxDimensions;
}

bool nonzero(Call& call) {
  if (!takes(call)) return false;
  const View x = call.view_of(0);
  const Places places = Places::of_nonzero(call.service(), call.device, x);
  if (!places.available()) return false;
  DenseTensor& out = *call.output(0);
  out.Resize({places.total(), x.ndim});
  call.context.Alloc(&out, phi::DataType::INT64);
  return out.numel() == 0 || hp::ops::nonzero(call.service(), call.device, view(out), x, places);
}

// Inputs: sorted_sequence, value. Attributes: out_int32, right.
bool searchsorted(Call& call) {
  if (!takes(call) || call.input(1)->numel() == 0 || call.input(1)->dtype() != call.input(0)->dtype()) return false;
  const View sorted = call.view_of(0), value = call.view_of(1);
  if (sorted.ndim == 0 || value.ndim == 0) return false;
  return hp::ops::searchsorted(call.service(), call.device, call.allocate(0), sorted, value, {}, call.attr<bool>(1));
}

// The mask, broadcast to the sizes of x.
class Mask {
 public:
  Mask(Call& call, const View& mask, const View& x) : view_(mask) {
    if (same_sizes(mask, x)) return;
    Shaped spread(mask);
    dense_.emplace(call.device, mask.dtype, x.ndim, x.sizes);
    good = copy(copying.on(call.device), call.device, *dense_, spread.expand(x.ndim, x.sizes));
    view_ = *dense_;
  }
  operator const View&() const { return view_; }
  bool good = true;

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
  if (!takes(call) || !fits(*call.input(1), *call.input(0))) return false;
  const View x = call.view_of(0);
  const Mask mask(call, call.view_of(1), x);
  if (!mask.good) return false;
  const Places places = Places::of_nonzero(call.service(), call.device, mask);
  if (!places.available()) return false;
  DenseTensor& out = *call.output(0);
  out.Resize({places.total()});
  call.context.Alloc(&out, call.kernel.dtype);
  return out.numel() == 0 || hp::ops::masked_select(call.service(), call.device, view(out), x, mask, places);
}

// Inputs: x, mask, the gradient.
bool masked_select_grad(Call& call) {
  static Step scattering("masked_scatter");
  const DenseTensor &x = *call.input(0), &chosen = *call.input(1), &grad = *call.input(2);
  if (x.numel() == 0 || !fits(chosen, x) || !chosen.initialized() || !on_device(chosen) ||
      (grad.numel() != 0 && !on_device(grad)) || !call.service().has_compiler || x.dims().size() > kMaxDimensions ||
      to_core(call.kernel.dtype) == DType::kNone) {
    return false;
  }
  const View out = call.allocate(0);
  if (!zero(call.device, out)) return false;
  if (grad.numel() == 0) return decomposed(call);
  const Mask mask(call, call.view_of(1), out);
  const Service& service = scattering.on(call.device);
  const Places places = Places::of_nonzero(service, call.device, mask);
  return mask.good && places.available() &&
         hp::ops::masked_scatter(service, call.device, out, mask, call.view_of(2), places) && decomposed(call);
}

// Inputs: x, mask, value, the gradient.
bool masked_fill_grad(Call& call) {
  static PointwiseStep where("where");
  const DenseTensor &chosen = *call.input(1), &grad = *call.input(3);
  if (!grad.initialized() || grad.numel() == 0 || !on_device(grad) || !chosen.initialized() || !on_device(chosen) ||
      !call.service().able() || grad.dims().size() > kMaxDimensions || !is_float(to_core(call.kernel.dtype))) {
    return false;
  }
  const View mask = view(chosen), from = view(grad);
  const Temporary nothing(call.device, from.dtype, 0, nullptr);
  if (!zero(call.device, nothing)) return false;
  if (call.output(1) != nullptr) {
    const Temporary part(call.device, from.dtype, from.ndim, from.sizes);
    if (!where(call.device, part, {mask, from, nothing}) || !sum_to(call.device, call.allocate(1), part)) return false;
  }
  if (call.output(0) != nullptr) {
    const View out = call.allocate(0);
    const Temporary part(call.device, from.dtype, from.ndim, from.sizes);
    if (!where(call.device, part, {mask, nothing, from}) || !sum_to(call.device, out, part)) return false;
  }
  return decomposed(call);
}

// Attributes: return_index, return_inverse, return_counts, axis, dtype. Outputs: out, indices, index, counts.
bool unique(Call& call) {
  static Step sorting("sort"), selecting("unique");
  if (!takes(call) || call.attr<bool>(0) || !call.integers(3).empty() ||
      call.attr<phi::DataType>(4) != phi::DataType::INT64 || is_complex(to_core(call.kernel.dtype))) {
    return false;
  }
  Device& device = call.device;
  const View x = call.view_of(0);
  const int64_t length[] = {x.numel()};
  const Temporary sorted(device, x.dtype, 1, length), order(device, DType::kI64, 1, length);
  if (!hp::ops::sort(sorting.on(device), device, sorted, order, Shaped(x.data, x.dtype, 1, length), 0, false, true)) {
    return false;
  }
  const Service& service = selecting.on(device);
  const Places places = Places::of_heads(service, device, sorted);
  if (!places.available()) return false;
  const int64_t total = places.total();
  const auto made = [&](int i, int64_t size, phi::DataType dtype) {
    call.output(i)->Resize({size});
    call.context.Alloc(call.output(i), dtype);
    return view(*call.output(i));
  };
  const View out = made(0, total, call.kernel.dtype);
  View inverse, counts;
  if (call.attr<bool>(1)) inverse = made(2, length[0], phi::DataType::INT64);
  if (call.attr<bool>(2)) counts = made(3, total, phi::DataType::INT64);
  return hp::ops::unique(service, device, out, inverse, counts, sorted, order, places) && decomposed(call);
}

// Attributes: rows, columns, offset, dtype.
bool triangle(Call& call, bool upper) {
  const int64_t rows = call.integer(0), columns = call.integer(1), offset = call.integer(2);
  if (call.kernel.dtype != phi::DataType::INT64 || !call.service().has_compiler || rows <= 0 || columns <= 0)
    return false;
  const View out = call.allocate(0);
  if (out.numel() == 0) return true;
  // Rows that have an element on that side.
  int64_t first = 0, last = rows;
  if (upper) {
    last = std::min(rows, columns - offset);
  } else {
    first = std::max<int64_t>(0, -offset);
  }
  return hp::ops::triangle_indices(call.service(), call.device, out, first, last - first, columns, offset, upper);
}
bool tril_indices(Call& call) { return triangle(call, false); }
bool triu_indices(Call& call) { return triangle(call, true); }

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/selection.inc"
