#pragma once

#include "../core/view.h"

namespace hp::ops {

// An index tensor, and what its indices stand for: below `limit`, `step` elements apart. `wrap` is added to negative
// ones.
struct IndexTensor {
  const void* index;
  DType dtype;
  int64_t limit, wrap, step;
};

}  // namespace hp::ops
