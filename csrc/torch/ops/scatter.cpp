#include "ops/scatter.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "ops/advanced_index.h"
#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

using hp::ops::ScatterOp;

// A 0-dim tensor with one value.
Tensor value_like(const Tensor& tensor, const at::Scalar& value) { return at::full({}, value, tensor.options()); }

// The value that `write` starts from if the old one is excluded.
Tensor neutral(const Tensor& out, ScatterOp write) {
  if (write == ScatterOp::kAdd) return value_like(out, 0);
  if (write == ScatterOp::kMultiply) return value_like(out, 1);
  const bool greatest = write == ScatterOp::kMax;
  if (out.is_floating_point()) {
    const double infinity = std::numeric_limits<double>::infinity();
    return value_like(out, greatest ? -infinity : infinity);
  }
  if (out.scalar_type() == at::kBool) return value_like(out, !greatest);
  const int bits = 8 * static_cast<int>(out.element_size());
  if (out.scalar_type() == at::kByte) return value_like(out, greatest ? 0 : 255);
  const int64_t top = bits == 64 ? INT64_MAX : (int64_t{1} << (bits - 1)) - 1;
  return value_like(out, greatest ? -top - 1 : top);
}

// A mean is a sum divided by the number of its terms; integers are rounded down.
void divide_by_counts(const Tensor& out, const Tensor& counts) {
  counts.masked_fill_(at::eq(counts, 0), 1);
  if (out.is_floating_point() || out.is_complex()) {
    out.div_(counts);
  } else {
    out.div_(counts, "floor");
  }
}

std::optional<ScatterOp> reduction(std::string_view name) {
  if (name == "sum" || name == "mean" || name == "add") return ScatterOp::kAdd;
  if (name == "prod" || name == "multiply") return ScatterOp::kMultiply;
  if (name == "amax") return ScatterOp::kMax;
  if (name == "amin") return ScatterOp::kMin;
  return std::nullopt;
}

void start(const Tensor& out, const Tensor& self) {
  if (!out.is_same(self)) copy_tensor(out, self, false);
}

// Whether kernels support the write; checked before anything is written.
bool writable(const Tensor& out, ScatterOp write) {
  const DType dtype = to_core(out.scalar_type());
  return dtype != DType::kNone && (!is_complex(dtype) || write == ScatterOp::kSet || write == ScatterOp::kAdd);
}

// ---- scatter

bool scatter_into(const Overload& overload, const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src,
                  ScatterOp write) {
  return hp::ops::scatter(overload, device_holding(out), view(out), view(index), view(src),
                          at::maybe_wrap_dim(dim, out.dim()), write);
}

bool scatter(const Overload& overload, const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
             const Tensor& src) {
  if (!writable(out, ScatterOp::kSet)) return false;
  start(out, self);
  return index.numel() == 0 || scatter_into(overload, out, dim, index, src, ScatterOp::kSet);
}

bool scatter(const Overload& overload, const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
             const at::Scalar& value) {
  return scatter(overload, out, self, dim, index, value_like(out, value).expand(index.sizes()));
}

bool scatter_reduce(const Overload& overload, const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
                    const Tensor& src, std::string_view reduce, bool include_self) {
  const std::optional<ScatterOp> write = reduction(reduce);
  if (!write || !writable(out, *write)) return false;
  start(out, self);
  if (index.numel() == 0) return true;
  if (!include_self &&
      !scatter_into(overload, out, dim, index, neutral(out, *write).expand(index.sizes()), ScatterOp::kSet))
    return false;
  if (!scatter_into(overload, out, dim, index, src, *write)) return false;
  if (reduce != "mean") return true;
  const Tensor counts = include_self ? at::ones_like(out) : at::zeros_like(out);
  counts.scatter_add_(dim, index, value_like(out, 1).expand(index.sizes()));
  divide_by_counts(out, counts);
  return true;
}
bool scatter_reduce(const Overload& overload, const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
                    const Tensor& src) {
  return scatter_reduce(overload, out, self, dim, index, src, "sum", true);
}
bool scatter_reduce(const Overload& overload, const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
                    const Tensor& src, std::string_view reduce) {
  return scatter_reduce(overload, out, self, dim, index, src, reduce, true);
}
bool scatter_reduce(const Overload& overload, const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
                    const at::Scalar& value, std::string_view reduce) {
  return scatter_reduce(overload, out, self, dim, index, value_like(out, value).expand(index.sizes()), reduce, true);
}

// ---- index_add and related operators

bool write_slices(const Overload& overload, const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src,
                  ScatterOp write, bool negative = false) {
  return hp::ops::index_write(overload, device_holding(out), view(out), view(index), view(src),
                              at::maybe_wrap_dim(dim, out.dim()), write, negative);
}

// Expands one value to all slices.
Tensor as_slices(const Tensor& value, const Tensor& out, int64_t dim, const Tensor& index) {
  std::vector<int64_t> sizes(out.sizes().begin(), out.sizes().end());
  if (!sizes.empty()) sizes[at::maybe_wrap_dim(dim, out.dim())] = index.numel();
  return value.expand(sizes);
}

bool index_add(const Overload& overload, const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
               const Tensor& source, const at::Scalar& alpha) {
  if (!writable(out, ScatterOp::kAdd)) return false;
  if (alpha.isComplex() && !source.is_complex()) return false;  // the CPU tier raises torch's error
  start(out, self);
  if (index.numel() == 0 || out.numel() == 0) return true;
  // As on the CPU, alpha has the dtype of the elements.
  const bool integers = at::isIntegralType(source.scalar_type(), /*includeBool=*/true);
  const at::Scalar factor = integers && alpha.isFloatingPoint() ? at::Scalar(alpha.toLong()) : alpha;
  const Tensor scaled = factor.equal(1) ? source : at::mul(source, factor).to(source.scalar_type());
  return write_slices(overload, out, dim, index, scaled, ScatterOp::kAdd);
}

bool index_copy(const Overload& overload, const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
                const Tensor& source) {
  if (!writable(out, ScatterOp::kSet)) return false;
  start(out, self);
  if (index.numel() == 0 || out.numel() == 0) return true;
  return write_slices(overload, out, dim, index, source, ScatterOp::kSet);
}

bool index_reduce(const Overload& overload, const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
                  const Tensor& source, std::string_view reduce, bool include_self) {
  const std::optional<ScatterOp> write = reduction(reduce);
  if (!write || !writable(out, *write)) return false;
  start(out, self);
  if (index.numel() == 0 || out.numel() == 0) return true;
  if (!include_self &&
      !write_slices(overload, out, dim, index, as_slices(neutral(out, *write), out, dim, index), ScatterOp::kSet))
    return false;
  if (!write_slices(overload, out, dim, index, source, *write)) return false;
  if (reduce != "mean") return true;
  const Tensor counts = include_self ? at::ones_like(out) : at::zeros_like(out);
  counts.index_add_(dim, index, as_slices(value_like(out, 1), out, dim, index));
  divide_by_counts(out, counts);
  return true;
}

bool index_fill(const Overload& overload, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  if (index.scalar_type() != at::kLong || index.dim() > 1 || value.dim() != 0 || !writable(self, ScatterOp::kSet)) {
    return false;
  }
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes) return false;
  at::assert_no_overlap(self, index);
  at::assert_no_overlap(self, value);
  if (index.numel() == 0 || self.numel() == 0) return true;
  const Tensor same = value.to(self.scalar_type());
  return write_slices(overload, self, dim, index, as_slices(same, self, dim, index), ScatterOp::kSet,
                      /*negative=*/true);
}
bool index_fill(const Overload& overload, const Tensor& self, int64_t dim, const Tensor& index,
                const at::Scalar& value) {
  if (value.isComplex() && !self.is_complex()) return false;
  return index_fill(overload, self, dim, index, value_like(self, value));
}

// ---- index_put

// The mask, expanded over `self`, if it is the only index; else undefined.
Tensor only_mask(const Tensor& self, const c10::List<OptionalTensor>& indices) {
  Tensor mask;
  int64_t before = 0, covered = 0;
  for (const OptionalTensor each : indices) {
    if (!each || !each->defined()) {
      if (!mask.defined()) ++before;
      continue;
    }
    if (mask.defined() || each->scalar_type() != at::kBool) return {};
    mask = *each;
    covered = before + mask.dim();
  }
  if (!mask.defined() || covered > self.dim()) return {};
  for (int64_t d = 0; d < mask.dim(); ++d) {
    if (mask.size(d) != self.size(before + d)) return {};
  }
  for (int64_t d = covered; d < self.dim(); ++d) mask = mask.unsqueeze(-1);
  return mask;
}

bool index_put(const Overload& overload, const Tensor& self, const c10::List<OptionalTensor>& indices,
               const Tensor& values, bool accumulate, bool /*unsafe*/) {
  if (self.scalar_type() != values.scalar_type() || static_cast<int64_t>(indices.size()) > self.dim()) return false;
  const ScatterOp write = accumulate ? ScatterOp::kAdd : ScatterOp::kSet;
  if (!writable(self, write) || at::has_internal_overlap(self) == at::MemOverlap::Yes) return false;
  at::assert_no_overlap(self, values);
  for (const OptionalTensor each : indices) {
    if (each && each->defined()) at::assert_no_overlap(self, *each);
  }
  if (!accumulate && values.numel() == 1) {
    // The positions of the mask's elements are not needed.
    if (const Tensor mask = only_mask(self, indices); mask.defined()) {
      Tensor(self).masked_fill_(mask.to(self.device()), values.reshape({}));
      return true;
    }
  }
  IndexedView shape(self, indices);
  const bool expandable = at::is_expandable_to(values.sizes(), shape.sizes);
  if (!expandable && shape.indices.empty()) return false;  // a copy, whose error the CPU tier raises
  TORCH_CHECK(expandable, "shape mismatch: value tensor of shape ", values.sizes(),
              " cannot be broadcast to indexing result of shape ", at::IntArrayRef(shape.sizes));
  const Tensor spread = values.expand(shape.sizes);
  if (spread.numel() == 0) return true;
  if (shape.indices.empty()) {
    accumulate ? shape.self.add_(spread) : shape.self.copy_(spread);
    return true;
  }
  unify_index_dtypes(shape.indices);
  return hp::ops::index_put(overload, device_holding(self), view(shape.self), view(spread), shape.views(), shape.first,
                            write);
}

bool put(const Overload& overload, const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  if (!accumulate) at::globalContext().alertNotDeterministic("put_");  // as on the CPU
  if (index.scalar_type() != at::kLong || self.scalar_type() != source.scalar_type() || index.numel() != source.numel())
    return false;
  const ScatterOp write = accumulate ? ScatterOp::kAdd : ScatterOp::kSet;
  if (!writable(self, write) || (self.numel() == 0 && index.numel() != 0)) return false;
  at::assert_no_internal_overlap(self);
  at::assert_no_overlap(self, index);
  at::assert_no_overlap(self, source);
  if (index.numel() == 0) return true;
  const Tensor dense = self.contiguous(), flat = dense.view(-1), values = source.reshape(-1),
               flat_index = index.reshape(-1);
  if (!hp::ops::index_put(overload, device_holding(self), view(flat), view(values), {view(flat_index)}, 0, write)) {
    return false;
  }
  if (!dense.is_same(self)) copy_tensor(self, dense, false);
  return true;
}

// ---- embedding

std::optional<Tensor> embedding_dense_backward(const Overload& overload, const Tensor& grad_output,
                                               const Tensor& indices, int64_t num_weights, int64_t padding_idx,
                                               bool scale_grad_by_freq) {
  if ((indices.scalar_type() != at::kLong && indices.scalar_type() != at::kInt) || grad_output.dim() == 0 ||
      !writable(grad_output, ScatterOp::kAdd))
    return std::nullopt;
  const int64_t width = grad_output.size(-1);
  Tensor out = at::zeros({num_weights, width}, grad_output.options());
  if (grad_output.numel() == 0 || num_weights == 0) return out;
  const Tensor flat_index = indices.reshape(-1).contiguous();
  Tensor grad = grad_output.reshape({flat_index.numel(), width}).contiguous();
  if (scale_grad_by_freq) {
    const Tensor counts = at::zeros({num_weights}, grad.options());
    counts.index_add_(0, flat_index, at::ones({1}, grad.options()).expand(flat_index.numel()));
    grad = at::div(grad, at::index_select(counts, 0, flat_index).unsqueeze(1)).contiguous();
  }
  if (!hp::ops::embedding_dense_backward(overload, device_holding(out), view(out), view(grad), view(flat_index))) {
    return std::nullopt;
  }
  if (padding_idx >= 0) out.select(0, padding_idx).zero_();
  return out;
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/scatter.inc"
