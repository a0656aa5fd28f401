#include "ops/indexing.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>

#include "ops/advanced_index.h"
#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

bool is_index(const Tensor& index) { return index.scalar_type() == at::kLong || index.scalar_type() == at::kInt; }

bool gather(const Overload& overload, const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
            bool /*sparse_grad*/) {
  if (out.numel() == 0) return true;
  return hp::ops::gather(overload, device_holding(self), view(out), view(self), view(index),
                         at::maybe_wrap_dim(dim, self.dim()));
}

// Whether the index is valid; if not, the CPU tier raises torch's error.
bool selectable(const Tensor& self, const Tensor& index) { return is_index(index) && index.dim() <= 1; }

std::vector<int64_t> selected_sizes(const Tensor& self, int64_t dim, const Tensor& index) {
  std::vector<int64_t> sizes(self.sizes().begin(), self.sizes().end());
  if (!sizes.empty()) sizes[dim] = index.numel();
  return sizes;
}

std::optional<Tensor> index_select(const Overload& overload, const Tensor& self, int64_t dim, const Tensor& index) {
  if (!selectable(self, index) || (self.dim() == 0 && index.numel() != 1)) return std::nullopt;
  dim = at::maybe_wrap_dim(dim, self.dim());
  Tensor out = empty(selected_sizes(self, dim, index), self.scalar_type(), self.device().index());
  if (out.numel() == 0) return out;
  if (!hp::ops::index_select(overload, device_holding(self), view(out), view(self), view(index), dim))
    return std::nullopt;
  return out;
}

bool index_select(const Overload& overload, const Tensor& self, int64_t dim, const Tensor& index, Tensor& out) {
  if (!selectable(self, index) || (self.dim() == 0 && index.numel() != 1) || out.scalar_type() != self.scalar_type())
    return false;
  dim = at::maybe_wrap_dim(dim, self.dim());
  at::native::resize_output(out, selected_sizes(self, dim, index));
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, index);
  return out.numel() == 0 ||
         hp::ops::index_select(overload, device_holding(self), view(out), view(self), view(index), dim);
}

bool take(const Overload& overload, const Tensor& self, const Tensor& index, Tensor& out) {
  if (index.scalar_type() != at::kLong || out.scalar_type() != self.scalar_type()) return false;
  if (self.numel() == 0 && index.numel() != 0) return false;
  at::native::resize_output(out, index.sizes());
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, index);
  if (out.numel() == 0) return true;
  const Tensor from = self.contiguous();
  return hp::ops::take(overload, device_holding(self), view(out), view(from), view(index));
}

std::optional<Tensor> take(const Overload& overload, const Tensor& self, const Tensor& index) {
  Tensor out = empty(index.sizes(), self.scalar_type(), self.device().index());
  if (!take(overload, self, index, out)) return std::nullopt;
  return out;
}

bool index_into(const Overload& overload, const IndexedView& shape, const Tensor& out) {
  if (out.numel() == 0) return true;
  if (shape.indices.empty()) {
    copy_tensor(out, shape.self, false);
    return true;
  }
  return hp::ops::index(overload, device_holding(out), view(out), view(shape.self), shape.views(), shape.first);
}

// torch's error; index_put has none.
void check_any_index(const at::IOptTensorListRef& indices) {
  TORCH_CHECK_INDEX(indices.size() != 0, "at least one index must be provided");
}

std::optional<Tensor> index(const Overload& overload, const Tensor& self, at::IOptTensorListRef indices) {
  check_any_index(indices);
  if (to_core(self.scalar_type()) == DType::kNone) return std::nullopt;
  IndexedView shape(self, indices);
  unify_index_dtypes(shape.indices);
  Tensor out = empty(shape.sizes, self.scalar_type(), self.device().index());
  if (!index_into(overload, shape, out)) return std::nullopt;
  return out;
}

bool index(const Overload& overload, const Tensor& self, at::IOptTensorListRef indices, const Tensor& out) {
  check_any_index(indices);
  if (to_core(self.scalar_type()) == DType::kNone || out.scalar_type() != self.scalar_type()) return false;
  IndexedView shape(self, indices);
  unify_index_dtypes(shape.indices);
  at::native::resize_output(out, shape.sizes);
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  for (const Tensor& each : shape.indices) at::assert_no_overlap(out, each);
  return index_into(overload, shape, out);
}

std::optional<Tensor> embedding(const Overload& overload, const Tensor& weight, const Tensor& indices,
                                int64_t /*padding_idx*/, bool /*scale_grad_by_freq*/, bool /*sparse*/) {
  if (weight.dim() != 2 || !is_index(indices)) return std::nullopt;  // the CPU tier raises torch's error
  std::vector<int64_t> sizes(indices.sizes().begin(), indices.sizes().end());
  sizes.push_back(weight.size(1));
  Tensor out = empty(sizes, weight.scalar_type(), weight.device().index());
  if (out.numel() == 0) return out;
  const Tensor rows = weight.contiguous(), positions = indices.contiguous();
  if (!hp::ops::embedding(overload, device_holding(weight), view(out), view(rows), view(positions)))
    return std::nullopt;
  return out;
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/indexing.inc"
