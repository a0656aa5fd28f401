// A contiguous tensor as rows along one of its dimensions.
#pragma once

#include "../core/view.h"

namespace hp::ops {

struct Rows {
  int64_t outer = 1, n = 1, inner = 1;
  Rows(const View& self, int64_t dim) {
    for (int d = 0; d < self.ndim; ++d) (d < dim ? outer : d == dim ? n : inner) *= self.sizes[d];
  }
};

}  // namespace hp::ops
