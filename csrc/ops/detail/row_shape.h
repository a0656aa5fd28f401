// A contiguous tensor viewed as outer x n x inner, with rows of n elements along one dimension.
#pragma once

#include "core/tensor/view.h"

namespace hp::ops {

struct RowShape {
  int64_t outer = 1, n = 1, inner = 1;
  RowShape(const View& self, int64_t dim) {
    for (int d = 0; d < self.ndim; ++d) (d < dim ? outer : d == dim ? n : inner) *= self.sizes[d];
  }
};

}  // namespace hp::ops
