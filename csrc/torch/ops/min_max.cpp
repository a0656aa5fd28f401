#include "ops/min_max.h"

#include <ATen/WrapDimUtils.h>

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

template <auto kFind>
bool find_index(const Overload& overload, const Tensor& out, const Tensor& self, std::optional<int64_t> dim,
                bool keepdim) {
  if (out.numel() == 0) return true;
  if (dim)
    return kFind(overload, device_holding(self), view(out), view(self), at::maybe_wrap_dim(*dim, self.dim()), keepdim);
  const Tensor flat = self.contiguous();
  const int64_t elements = flat.numel(), step = 1;
  View from = view(flat), to = view(out);
  from.ndim = 1;
  from.sizes = &elements;
  from.strides = &step;
  to.ndim = 0;
  return kFind(overload, device_holding(self), to, from, 0, false);
}
auto argmax(const auto&... args) { return find_index<&hp::ops::argmax>(args...); }
auto argmin(const auto&... args) { return find_index<&hp::ops::argmin>(args...); }

template <auto kFind>
bool find_value(const Overload& overload, const Tensor& values, const Tensor& indices, const Tensor& self, int64_t dim,
                bool keepdim) {
  if (values.numel() == 0) return true;
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (values.strides() == indices.strides())
    return kFind(overload, device_holding(self), view(values), view(indices), view(self), dim, keepdim);
  const ContiguousOutput first(values), second(indices);
  if (!kFind(overload, device_holding(self), view(first.tensor()), view(second.tensor()), view(self), dim, keepdim))
    return false;
  first.finish();
  second.finish();
  return true;
}
auto max_dim(const auto&... args) { return find_value<&hp::ops::max_dim>(args...); }
auto min_dim(const auto&... args) { return find_value<&hp::ops::min_dim>(args...); }

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/min_max.inc"
