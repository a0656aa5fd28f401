#pragma once

#include "core/tensor/view.h"

namespace hp::ops {

// An index tensor. Indices are below `limit` and `step` elements apart; `wrap` is added to negative ones.
struct IndexTensor {
  const void* index;
  DType dtype;
  int64_t limit, wrap, step;
};

inline int64_t size_of(const View& view, int64_t dim) { return view.ndim == 0 ? 1 : view.sizes[dim]; }
inline int64_t stride_of(const View& view, int64_t dim) { return view.ndim == 0 ? 0 : view.strides[dim]; }

// Indices into one dimension of `self`. With `negative`, they count from the end if below 0.
inline IndexTensor index_into(const View& self, int64_t dim, const View& index, bool negative) {
  const int64_t limit = size_of(self, dim);
  return {index.data, index.dtype, limit, negative ? limit : 0, stride_of(self, dim)};
}

}  // namespace hp::ops
