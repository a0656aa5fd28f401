// The dimensions of a reduction as a bit mask.
#pragma once

#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>

namespace hp::torch_adapter {

inline uint64_t all_dims_mask(const at::Tensor& self) {
  return self.dim() >= 64 ? ~uint64_t{0} : (uint64_t{1} << self.dim()) - 1;
}
inline uint64_t dim_mask(const at::Tensor& self, int64_t dim) {
  return uint64_t{1} << at::maybe_wrap_dim(dim, self.dim());
}
// All dimensions if `dims` is absent or empty.
inline uint64_t dim_mask(const at::Tensor& self, at::OptionalIntArrayRef dims) {
  if (!dims || dims->empty()) return all_dims_mask(self);
  return at::dim_list_to_bitset(*dims, self.dim()).to_ullong();
}

inline c10::SmallVector<int64_t, 8> reduced_shape(const at::Tensor& self, uint64_t dims, bool keepdim) {
  c10::SmallVector<int64_t, 8> shape;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (!(dims >> d & 1)) {
      shape.push_back(self.size(d));
    } else if (keepdim) {
      shape.push_back(1);
    }
  }
  return shape;
}

}  // namespace hp::torch_adapter
