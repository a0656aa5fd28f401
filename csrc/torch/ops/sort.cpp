#include "ops/sort.h"

#include <ATen/WrapDimUtils.h>

#include "ops/dim_mask.h"
#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

bool sort(const Overload& overload, const Tensor& values, const Tensor& indices, const Tensor& self,
          std::optional<bool> stable, int64_t dim, bool descending) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  return with_contiguous(values, indices, self, [&](const View& to, const View& index, const View& from) {
    return hp::ops::sort(overload, device_holding(self), to, index, from, dim, descending, stable.value_or(false));
  });
}

bool topk(const Overload& overload, const Tensor& values, const Tensor& indices, const Tensor& self, int64_t k,
          int64_t dim, bool largest, bool sorted) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  return with_contiguous(values, indices, self, [&](const View& to, const View& index, const View& from) {
    return hp::ops::topk(overload, device_holding(self), to, index, from, k, dim, largest, sorted);
  });
}

// Cases that torch rejects, and empty rows, are left to the CPU tier.
bool valid_dim(const Tensor& self, int64_t dim) {
  return !self.is_complex() && dim >= -std::max<int64_t>(1, self.dim()) && dim < std::max<int64_t>(1, self.dim()) &&
         (self.dim() == 0 || self.size(dim) > 0);
}
bool fit_results(const Tensor& values, const Tensor& indices, const Tensor& self) {
  return values.scalar_type() == self.scalar_type() && indices.scalar_type() == at::kLong;
}

bool kthvalue(const Overload& overload, const Tensor& self, int64_t k, int64_t dim, bool keepdim, const Tensor& values,
              const Tensor& indices) {
  if (!valid_dim(self, dim) || !fit_results(values, indices, self) || k < 1 ||
      k > (self.dim() == 0 ? 1 : self.size(dim)))
    return false;
  const auto shape = reduced_shape(self, dim_mask(self, dim), keepdim);
  at::native::resize_output(values, shape);
  at::native::resize_output(indices, shape);
  dim = at::maybe_wrap_dim(dim, self.dim());
  return with_contiguous(values, indices, self, [&](const View& to, const View& index, const View& from) {
    return hp::ops::kthvalue(overload, device_holding(self), to, index, from, k, dim, keepdim);
  });
}

template <auto kPick>
bool pick(const Overload& overload, const Tensor& self, int64_t dim, bool keepdim, const Tensor& values,
          const Tensor& indices) {
  if (!valid_dim(self, dim) || !fit_results(values, indices, self)) return false;
  const auto shape = reduced_shape(self, dim_mask(self, dim), keepdim);
  at::native::resize_output(values, shape);
  at::native::resize_output(indices, shape);
  dim = at::maybe_wrap_dim(dim, self.dim());
  return with_contiguous(values, indices, self, [&](const View& to, const View& index, const View& from) {
    return kPick(overload, device_holding(self), to, index, from, dim, keepdim);
  });
}
// Over all elements; torch returns NaN or 0 if there are none.
template <auto kPick>
OptionalTensor pick(const Overload& overload, const Tensor& self) {
  if (self.numel() == 0 || self.is_complex()) return {};
  const Tensor values = empty({}, self.scalar_type(), self.device().index());
  const Tensor indices = empty({}, at::kLong, self.device().index());
  if (!pick<kPick>(overload, self.reshape({-1}), 0, false, values, indices)) return {};
  return values;
}
auto median(const auto&... args) { return pick<&hp::ops::median>(args...); }
auto nanmedian(const auto&... args) { return pick<&hp::ops::nanmedian>(args...); }

std::optional<std::tuple<Tensor, Tensor>> mode(const Overload& overload, const Tensor& self, int64_t dim,
                                               bool keepdim) {
  if (!valid_dim(self, dim)) return {};
  const auto shape = reduced_shape(self, dim_mask(self, dim), keepdim);
  Tensor values = empty(shape, self.scalar_type(), self.device().index());
  Tensor indices = empty(shape, at::kLong, self.device().index());
  if (!pick<&hp::ops::mode>(overload, self, dim, keepdim, values, indices)) return {};
  return std::make_tuple(std::move(values), std::move(indices));
}
bool mode(const Overload& overload, const Tensor& self, int64_t dim, bool keepdim, const Tensor& values,
          const Tensor& indices) {
  return pick<&hp::ops::mode>(overload, self, dim, keepdim, values, indices);
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/sort.inc"
