#include "ops/selection.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/any.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/le.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/unique_dim_consecutive.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

using hp::ops::SelectionOffsets;

bool has_core_dtype(const Tensor& tensor) { return to_core(tensor.scalar_type()) != DType::kNone; }

Tensor integers(const Tensor& like, at::IntArrayRef sizes) { return empty(sizes, at::kLong, like.device().index()); }

// Counts a call that other operators of the device serve.
bool decomposed(const Overload& overload) {
  overload.op.count(Tier::kDecomposition);
  return true;
}

// ---- Masks

bool masked_fill(const Overload& overload, const Tensor& self, const Tensor& mask, const Tensor& value) {
  if (mask.scalar_type() != at::kBool || value.dim() != 0 || !has_core_dtype(self) ||
      at::has_internal_overlap(self) == at::MemOverlap::Yes || !at::is_expandable_to(mask.sizes(), self.sizes()) ||
      (value.is_complex() && !self.is_complex()))
    return false;
  at::assert_no_partial_overlap(self, mask);
  if (self.numel() == 0) return true;
  const Tensor spread = mask.expand(self.sizes()), same = value.to(self.scalar_type());
  if (self.element_size() == 16) {
    const Tensor parts = at::view_as_real(self), filled = at::view_as_real(same);
    for (int64_t part = 0; part < 2; ++part) {
      parts.select(-1, part).masked_fill_(spread, filled.select(-1, part));
    }
    return decomposed(overload);
  }
  return hp::ops::masked_fill(overload, device_holding(self), view(self), view(spread), view(same));
}

bool masked_fill(const Overload& overload, const Tensor& self, const Tensor& mask, const at::Scalar& value) {
  if (value.isComplex() && !self.is_complex()) return false;
  return masked_fill(overload, self, mask, at::full({}, value, self.options()));
}

bool masked_select(const Overload& overload, const Tensor& self, const Tensor& mask, Tensor* out, Tensor& result) {
  if (mask.scalar_type() != at::kBool || !has_core_dtype(self) || (out && out->scalar_type() != self.scalar_type())) {
    return false;
  }
  const auto [a, b] = at::expand_outplace(mask, self);
  const Tensor chosen = a->contiguous(), from = b->contiguous();
  Device& device = device_holding(self);
  const SelectionOffsets offsets = SelectionOffsets::of_nonzero(overload, device, view(chosen));
  if (!offsets.available()) return false;
  const int64_t total = offsets.total();
  if (out == nullptr) {
    result = empty({total}, self.scalar_type(), self.device().index());
  } else {
    at::assert_no_internal_overlap(*out);
    at::assert_no_overlap(*out, self);
    at::assert_no_overlap(*out, mask);
    at::native::resize_output(*out, {total});
  }
  const ContiguousOutput target(out ? *out : result);
  if (!hp::ops::masked_select(overload, device, view(target.tensor()), view(from), view(chosen), offsets)) return false;
  target.finish();
  return true;
}
std::optional<Tensor> masked_select(const Overload& overload, const Tensor& self, const Tensor& mask) {
  Tensor result;
  if (!masked_select(overload, self, mask, nullptr, result)) return std::nullopt;
  return result;
}
bool masked_select(const Overload& overload, const Tensor& self, const Tensor& mask, Tensor& out) {
  Tensor none;
  return masked_select(overload, self, mask, &out, none);
}

bool masked_scatter(const Overload& overload, const Tensor& self, const Tensor& mask, const Tensor& source) {
  if (mask.scalar_type() != at::kBool || self.scalar_type() != source.scalar_type() || !has_core_dtype(self) ||
      !at::is_expandable_to(mask.sizes(), self.sizes()))
    return false;
  at::assert_no_internal_overlap(self);
  at::assert_no_overlap(self, source);
  if (self.numel() == 0) return true;
  const Tensor chosen = mask.expand(self.sizes()).contiguous(), from = source.contiguous(), to = self.contiguous();
  Device& device = device_holding(self);
  const SelectionOffsets offsets = SelectionOffsets::of_nonzero(overload, device, view(chosen));
  if (!offsets.available() || !hp::ops::masked_scatter(overload, device, view(to), view(chosen), view(from), offsets))
    return false;
  if (!to.is_same(self)) copy_tensor(self, to, false);
  return true;
}

// ---- nonzero

std::optional<Tensor> nonzero(const Overload& overload, const Tensor& self) {
  if (!has_core_dtype(self) || self.dim() > kMaxKernelRank) return std::nullopt;
  const Tensor from = self.contiguous();
  Device& device = device_holding(self);
  const SelectionOffsets offsets = SelectionOffsets::of_nonzero(overload, device, view(from));
  if (!offsets.available()) return std::nullopt;
  // One dimension after the other, as on the CPU: torch's sparse kernels rely on it.
  const Tensor out = integers(self, {self.dim(), offsets.total()}).t();
  if (out.numel() == 0) return out;
  if (!hp::ops::nonzero(overload, device, view(out), view(from), offsets)) return std::nullopt;
  return out;
}
bool nonzero(const Overload& overload, const Tensor& self, Tensor& out) {
  if (out.scalar_type() != at::kLong) return false;
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  return resize_and_copy(out, nonzero(overload, self));
}
std::optional<Tensor> nonzero(const Overload& overload, const Tensor& self, int64_t size, int64_t fill_value) {
  if (!has_core_dtype(self) || self.dim() > kMaxKernelRank || size < 0) return std::nullopt;
  // The strides of the CUDA kernel, which torch's meta function takes for those of every accelerator.
  const Tensor from = self.contiguous(),
               out = at::full({self.dim(), size}, fill_value, self.options().dtype(at::kLong)).t();
  if (out.numel() == 0 || self.numel() == 0) return out;
  Device& device = device_holding(self);
  const SelectionOffsets offsets = SelectionOffsets::of_nonzero(overload, device, view(from));
  if (!offsets.available() || !hp::ops::nonzero(overload, device, view(out), view(from), offsets)) return std::nullopt;
  return out;
}
bool nonzero(const Overload& overload, const Tensor& self, int64_t size, int64_t fill_value, Tensor& out) {
  if (out.scalar_type() != at::kLong) return false;
  return resize_and_copy(out, nonzero(overload, self, size, fill_value));
}

std::optional<Tensor> count_nonzero(const Overload& overload, const Tensor& self, at::IntArrayRef dim) {
  const Tensor counted = self.is_complex() ? at::any(at::ne(at::view_as_real(self), 0), -1) : at::ne(self, 0);
  Tensor out = at::sum(counted, dim);
  decomposed(overload);
  return out;
}

// ---- Unique elements

using Unique = std::tuple<Tensor, Tensor, Tensor>;

std::optional<Unique> runs(const Overload& overload, const Tensor& flat, const Tensor& order, at::IntArrayRef sizes,
                           bool return_inverse, bool return_counts) {
  Device& device = device_holding(flat);
  const SelectionOffsets offsets = SelectionOffsets::of_run_starts(overload, device, view(flat));
  if (!offsets.available()) return std::nullopt;
  const int64_t total = flat.numel() == 0 ? 0 : offsets.total();
  Tensor out = empty({total}, flat.scalar_type(), flat.device().index());
  Tensor inverse = return_inverse ? integers(flat, sizes) : integers(flat, {0});
  Tensor counts = integers(flat, {return_counts ? total : 0});
  if (total > 0 && !hp::ops::unique(overload, device, view(out), return_inverse ? view(inverse) : View{},
                                    return_counts ? view(counts) : View{}, view(flat), view(order), offsets))
    return std::nullopt;
  return Unique(std::move(out), std::move(inverse), std::move(counts));
}

std::optional<Unique> unique(const Overload& overload, const Tensor& self, bool /*sorted*/, bool return_inverse,
                             bool return_counts) {
  if (!has_core_dtype(self) || self.is_complex()) return std::nullopt;
  const auto [sorted, order] = at::sort(self.reshape(-1), /*stable=*/true, 0, false);
  return runs(overload, sorted.contiguous(), order.contiguous(), self.sizes(), return_inverse, return_counts);
}
std::optional<std::tuple<Tensor, Tensor>> unique(const Overload& overload, const Tensor& self, bool sorted,
                                                 bool return_inverse) {
  auto result = unique(overload, self, sorted, return_inverse, false);
  if (!result) return std::nullopt;
  return std::make_tuple(std::get<0>(*result), std::get<1>(*result));
}

std::optional<Unique> unique_consecutive(const Overload& overload, const Tensor& self, bool return_inverse,
                                         bool return_counts, std::optional<int64_t> dim) {
  if (!has_core_dtype(self) || self.is_complex()) return std::nullopt;
  if (dim && (self.dim() != 1 || self.numel() == 0)) {
    decomposed(overload);
    return at::unique_dim_consecutive(self, *dim, return_inverse, return_counts);
  }
  return runs(overload, self.reshape(-1).contiguous(), Tensor(), self.sizes(), return_inverse, return_counts);
}

std::optional<Tensor> repeat_interleave(const Overload& overload, const Tensor& repeats,
                                        std::optional<int64_t> output_size) {
  if (repeats.dim() != 1 || (repeats.scalar_type() != at::kLong && repeats.scalar_type() != at::kInt)) {
    return std::nullopt;
  }
  if (repeats.numel() == 0) return empty({0}, repeats.scalar_type(), repeats.device().index());
  Device& device = device_holding(repeats);
  const Tensor from = repeats.contiguous();
  const SelectionOffsets offsets = SelectionOffsets::of_repeats(overload, device, view(from));
  if (!offsets.available()) return std::nullopt;
  const int64_t total = output_size ? *output_size : offsets.total();
  TORCH_CHECK(total >= 0, "repeats can not be negative");
  Tensor out = empty({total}, repeats.scalar_type(), repeats.device().index());
  if (total > 0 && !hp::ops::repeat_interleave(overload, device, view(out), view(from), offsets)) return std::nullopt;
  return out;
}

// ---- Searching and sorting rows

bool searchsorted(const Overload& overload, const Tensor& sorted, const Tensor& self, bool out_int32, bool right,
                  std::optional<std::string_view> side, const OptionalTensor& sorter, Tensor& out) {
  const bool has_sorter = sorter && sorter->defined();
  if (sorted.dim() == 0 || sorted.scalar_type() != self.scalar_type() || !has_core_dtype(self) || self.is_complex() ||
      (side && *side != "left" && *side != "right") || (side && *side == "left" && right) ||
      out.scalar_type() != (out_int32 ? at::kInt : at::kLong) || (out_int32 && sorted.size(-1) >= INT32_MAX))
    return false;
  if (sorted.dim() != 1 && (sorted.dim() != self.dim() ||
                            sorted.sizes().slice(0, sorted.dim() - 1) != self.sizes().slice(0, self.dim() - 1)))
    return false;
  if (has_sorter && (sorter->sizes() != sorted.sizes() || sorter->scalar_type() != at::kLong)) return false;
  at::native::resize_output(out, self.sizes());
  if (self.numel() == 0) return true;
  if (sorted.size(-1) == 0) {
    out.zero_();
    return decomposed(overload);
  }
  const Tensor rows = sorted.contiguous(), values = self.contiguous();
  const Tensor order = has_sorter ? sorter->contiguous() : Tensor();
  const ContiguousOutput target(out);
  if (!hp::ops::searchsorted(overload, device_holding(sorted), view(target.tensor()), view(rows), view(values),
                             view(order), right || (side && *side == "right")))
    return false;
  target.finish();
  return true;
}
std::optional<Tensor> searchsorted(const Overload& overload, const Tensor& sorted, const Tensor& self, bool out_int32,
                                   bool right, std::optional<std::string_view> side, const OptionalTensor& sorter) {
  Tensor out = empty({0}, out_int32 ? at::kInt : at::kLong, sorted.device().index());
  if (!searchsorted(overload, sorted, self, out_int32, right, side, sorter, out)) return std::nullopt;
  return out;
}
Tensor one_value(const Tensor& sorted, const at::Scalar& value) { return at::full({}, value, sorted.options()); }
std::optional<Tensor> searchsorted(const Overload& overload, const Tensor& sorted, const at::Scalar& self,
                                   bool out_int32, bool right, std::optional<std::string_view> side,
                                   const OptionalTensor& sorter) {
  if (sorted.dim() != 1 || self.isComplex() || (self.isFloatingPoint() && !sorted.is_floating_point())) {
    return std::nullopt;
  }
  return searchsorted(overload, sorted, one_value(sorted, self), out_int32, right, side, sorter);
}
std::optional<Tensor> searchsorted(const Overload& overload, const Tensor& self, const Tensor& boundaries,
                                   bool out_int32, bool right) {
  if (boundaries.dim() != 1) return std::nullopt;
  return searchsorted(overload, boundaries, self, out_int32, right, std::nullopt, OptionalTensor());
}
bool searchsorted(const Overload& overload, const Tensor& self, const Tensor& boundaries, bool out_int32, bool right,
                  Tensor& out) {
  return boundaries.dim() == 1 &&
         searchsorted(overload, boundaries, self, out_int32, right, std::nullopt, OptionalTensor(), out);
}
std::optional<Tensor> searchsorted(const Overload& overload, const at::Scalar& self, const Tensor& boundaries,
                                   bool out_int32, bool right) {
  return searchsorted(overload, boundaries, self, out_int32, right, std::nullopt, OptionalTensor());
}

bool isin(const Overload& overload, const Tensor& out, const Tensor& elements, const Tensor& test_elements,
          bool /*assume_unique*/, bool invert) {
  const at::ScalarType common = at::native::result_type(elements, test_elements);
  if (to_core(common) == DType::kNone || at::isComplexType(common)) return false;
  if (elements.numel() == 0) return true;
  if (test_elements.numel() == 0) {
    out.fill_(invert);
    return decomposed(overload);
  }
  const Tensor self = elements.to(common).contiguous();
  Tensor among = test_elements.reshape(-1).to(common).contiguous();
  if (among.numel() > hp::ops::kMaxUnsortedMembers) among = std::get<0>(at::sort(among)).contiguous();
  const ContiguousOutput target(out);
  if (!hp::ops::isin(overload, device_holding(out), view(target.tensor()), view(self), view(among), invert)) {
    return false;
  }
  target.finish();
  return true;
}
bool isin(const Overload& overload, const Tensor& out, const Tensor& elements, const at::Scalar& test_element,
          bool /*assume_unique*/, bool invert) {
  copy_tensor(out, invert ? at::ne(elements, test_element) : at::eq(elements, test_element), false);
  return decomposed(overload);
}
bool isin(const Overload& overload, const Tensor& out, const at::Scalar& element, const Tensor& test_elements,
          bool /*assume_unique*/, bool invert) {
  at::native::resize_output(out, {});  // torch's shape rule leaves it empty
  const Tensor found = at::any(at::eq(test_elements, element));
  copy_tensor(out, invert ? at::eq(found, false) : found, false);
  return decomposed(overload);
}

// ---- Counting

std::optional<Tensor> bincount(const Overload& overload, const Tensor& self, const OptionalTensor& weights,
                               int64_t minlength) {
  const bool weighted = weights && weights->defined();
  if (self.dim() != 1 || !at::isIntegralType(self.scalar_type(), false) || !has_core_dtype(self) || minlength < 0 ||
      (weighted && (weights->sizes() != self.sizes() || !has_core_dtype(*weights) || weights->is_complex())))
    return std::nullopt;
  at::ScalarType dtype = at::kLong;
  if (weighted) dtype = weights->scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  const at::TensorOptions options = self.options().dtype(dtype);
  int64_t length = minlength;
  if (self.numel() > 0) {
    if (at::amin(self).item<int64_t>() < 0) return std::nullopt;  // the CPU tier raises torch's error
    length = std::max(length, at::amax(self).item<int64_t>() + 1);
  } else if (!weighted) {
    return at::zeros({minlength}, options);
  }
  const Tensor out = at::zeros({length}, options);
  const Tensor values = weighted ? weights->to(dtype) : at::ones({1}, options).expand(self.sizes());
  if (self.numel() > 0) out.index_add_(0, self.to(at::kLong), values);
  decomposed(overload);
  return out;
}

// The histogram of integers, which CUDA has and the CPU lacks. Limits and bins are computed in integers.
std::optional<Tensor> integer_histc(const Overload& overload, const Tensor& self, int64_t bins, int64_t low,
                                    int64_t high) {
  if (low == high && self.numel() > 0) {
    low = at::amin(self).item<int64_t>();
    high = at::amax(self).item<int64_t>();
  }
  if (low == high) low -= 1, high += 1;
  TORCH_CHECK(low < high, "max must be larger than min");
  const Tensor out = at::zeros({bins + 1}, self.options());
  if (self.numel() > 0) {
    const Tensor flat = self.reshape(-1).to(at::kLong), outside = at::logical_or(at::lt(flat, low), at::gt(flat, high));
    const Tensor bin = at::div(at::sub(flat, low).mul_(bins), at::full({}, high - low, flat.options()), "floor");
    // The last bin includes its upper edge; values outside go to an extra bin, cut off below.
    out.index_add_(0, bin.clamp_max_(bins - 1).masked_fill_(outside, bins),
                   at::ones({1}, self.options()).expand(flat.sizes()));
  }
  decomposed(overload);
  return out.narrow(0, 0, bins).clone();
}

std::optional<Tensor> histc(const Overload& overload, const Tensor& self, int64_t bins, const at::Scalar& min,
                            const at::Scalar& max) {
  if (bins <= 0 || !has_core_dtype(self)) return std::nullopt;
  if (at::isIntegralType(self.scalar_type(), /*includeBool=*/false))
    return integer_histc(overload, self, bins, min.to<int64_t>(), max.to<int64_t>());
  if (!self.is_floating_point()) return std::nullopt;
  double low = min.to<double>(), high = max.to<double>();
  if (low == high && self.numel() > 0) {
    low = at::amin(self).item<double>();
    high = at::amax(self).item<double>();
  }
  if (low == high) low -= 1, high += 1;
  if (!(low < high) || std::isinf(low) || std::isinf(high)) return std::nullopt;  // the CPU tier raises torch's error
  Tensor out = at::zeros({bins + 1}, self.options());
  if (self.numel() > 0) {
    const Tensor flat = self.reshape(-1), inside = at::logical_and(at::ge(flat, low), at::le(flat, high));
    // The last bin includes its upper edge; values outside go to an extra bin, cut off below.
    Tensor bin = at::sub(flat, low).mul_(bins).div_(high - low);
    bin = at::where(inside, bin, at::full({}, bins, self.options())).to(at::kLong);
    bin = at::where(at::logical_and(inside, at::ge(bin, bins)), at::sub(bin, 1), bin);
    out.index_add_(0, bin, at::ones({1}, self.options()).expand(flat.sizes()));
  }
  decomposed(overload);
  return out.narrow(0, 0, bins).clone();
}
bool histc(const Overload& overload, const Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max,
           const Tensor& out) {
  return out.scalar_type() == self.scalar_type() && resize_and_copy(out, histc(overload, self, bins, min, max));
}

// ---- Triangle indices

std::optional<Tensor> triangle(const Overload& overload, int64_t rows, int64_t columns, int64_t offset, bool upper,
                               std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                               std::optional<at::Device> device) {
  if (rows < 0 || columns < 0 || layout.value_or(at::kStrided) != at::kStrided) return std::nullopt;
  const int index = device && device->has_index() ? device->index() : current_device(runtime());
  // The first row that has elements, and the number of such rows.
  const int64_t first = upper ? 0 : std::max<int64_t>(0, -offset);
  const int64_t lines = std::max<int64_t>(0, upper ? std::min(rows, columns - offset) : rows - first);
  int64_t total = 0;
  if (columns > 0) {
    for (int64_t row = first; row < first + lines; ++row) {
      total += upper ? columns - std::max<int64_t>(0, row + offset) : std::min(columns, row + offset + 1);
    }
  }
  Tensor out = empty({2, total}, dtype.value_or(at::kLong), index);
  if (total > 0 && !hp::ops::triangle_indices(overload, device_at(static_cast<c10::DeviceIndex>(index)), view(out),
                                              first, lines, columns, offset, upper))
    return std::nullopt;
  return out;
}
std::optional<Tensor> tril_indices(const Overload& overload, int64_t row, int64_t col, int64_t offset,
                                   std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                                   std::optional<at::Device> device, std::optional<bool> /*pin_memory*/) {
  return triangle(overload, row, col, offset, false, dtype, layout, device);
}
std::optional<Tensor> triu_indices(const Overload& overload, int64_t row, int64_t col, int64_t offset,
                                   std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                                   std::optional<at::Device> device, std::optional<bool> /*pin_memory*/) {
  return triangle(overload, row, col, offset, true, dtype, layout, device);
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/selection.inc"
