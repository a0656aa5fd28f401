#include "../../ops/sort.h"

#include <ATen/WrapDimUtils.h>

#include "../custom.h"
#include "../dimensions.h"

namespace hp::torch_adapter::ops {
namespace {

// Contiguous stand-ins where the kernels need them.
template <class Call>
bool ordered(const Tensor& values, const Tensor& places, const Tensor& self, const Call& call) {
  if (values.numel() == 0) return true;
  const Tensor from = self.contiguous();
  const ContiguousOutput first(values), second(places);
  if (!call(view(first.tensor()), view(second.tensor()), view(from))) return false;
  first.finish();
  second.finish();
  return true;
}

bool sort(const Overload& overload, const Tensor& values, const Tensor& places, const Tensor& self,
          std::optional<bool> stable, int64_t dim, bool descending) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  return ordered(values, places, self, [&](const View& to, const View& at, const View& from) {
    return hp::ops::sort(overload, device_holding(self), to, at, from, dim, descending, stable.value_or(false));
  });
}

bool topk(const Overload& overload, const Tensor& values, const Tensor& places, const Tensor& self, int64_t k,
          int64_t dim, bool largest, bool sorted) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  return ordered(values, places, self, [&](const View& to, const View& at, const View& from) {
    return hp::ops::topk(overload, device_holding(self), to, at, from, k, dim, largest, sorted);
  });
}

// What torch's own checks refuse, or say of empty rows, is left to them.
bool usual(const Tensor& self, int64_t dim) {
  return !self.is_complex() && dim >= -std::max<int64_t>(1, self.dim()) && dim < std::max<int64_t>(1, self.dim()) &&
         (self.dim() == 0 || self.size(dim) > 0);
}
bool fit_results(const Tensor& values, const Tensor& places, const Tensor& self) {
  return values.scalar_type() == self.scalar_type() && places.scalar_type() == at::kLong;
}

bool kthvalue(const Overload& overload, const Tensor& self, int64_t k, int64_t dim, bool keepdim, const Tensor& values,
              const Tensor& places) {
  if (!usual(self, dim) || !fit_results(values, places, self) || k < 1 || k > (self.dim() == 0 ? 1 : self.size(dim)))
    return false;
  const auto shape = reduced_shape(self, mask_of(self, dim), keepdim);
  at::native::resize_output(values, shape);
  at::native::resize_output(places, shape);
  dim = at::maybe_wrap_dim(dim, self.dim());
  return ordered(values, places, self, [&](const View& to, const View& at, const View& from) {
    return hp::ops::kthvalue(overload, device_holding(self), to, at, from, k, dim, keepdim);
  });
}

template <auto kPick>
bool pick(const Overload& overload, const Tensor& self, int64_t dim, bool keepdim, const Tensor& values,
          const Tensor& places) {
  if (!usual(self, dim) || !fit_results(values, places, self)) return false;
  const auto shape = reduced_shape(self, mask_of(self, dim), keepdim);
  at::native::resize_output(values, shape);
  at::native::resize_output(places, shape);
  dim = at::maybe_wrap_dim(dim, self.dim());
  return ordered(values, places, self, [&](const View& to, const View& at, const View& from) {
    return kPick(overload, device_holding(self), to, at, from, dim, keepdim);
  });
}
// Of all elements; torch gives NaN or 0 for none.
template <auto kPick>
OptionalTensor pick(const Overload& overload, const Tensor& self) {
  if (self.numel() == 0 || self.is_complex()) return {};
  const Tensor values = empty({}, self.scalar_type(), self.device().index());
  const Tensor places = empty({}, at::kLong, self.device().index());
  if (!pick<kPick>(overload, self.reshape({-1}), 0, false, values, places)) return {};
  return values;
}
auto median(const auto&... args) { return pick<&hp::ops::median>(args...); }
auto nanmedian(const auto&... args) { return pick<&hp::ops::nanmedian>(args...); }

std::optional<std::tuple<Tensor, Tensor>> mode(const Overload& overload, const Tensor& self, int64_t dim,
                                               bool keepdim) {
  if (!usual(self, dim)) return {};
  const auto shape = reduced_shape(self, mask_of(self, dim), keepdim);
  Tensor values = empty(shape, self.scalar_type(), self.device().index());
  Tensor places = empty(shape, at::kLong, self.device().index());
  if (!pick<&hp::ops::mode>(overload, self, dim, keepdim, values, places)) return {};
  return std::make_tuple(std::move(values), std::move(places));
}
bool mode(const Overload& overload, const Tensor& self, int64_t dim, bool keepdim, const Tensor& values,
          const Tensor& places) {
  return pick<&hp::ops::mode>(overload, self, dim, keepdim, values, places);
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/sort.inc"
