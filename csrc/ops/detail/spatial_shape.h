// Shape of operators over images: planes in the last one to three dimensions of a tensor.
#pragma once

#include "core/tensor/view.h"

namespace hp::ops {

// Also the first member of the kernels' shape structs. Missing leading dimensions have size 1.
struct SpatialShape {
  int64_t count, in[3], out[3];
};

inline SpatialShape spatial_shape(const View& in, const View& out, int rank) {
  SpatialShape shape{1, {1, 1, 1}, {1, 1, 1}};
  for (int d = 0; d < in.ndim - rank; ++d) shape.count *= in.sizes[d];
  for (int a = 0; a < rank; ++a) {
    shape.in[3 - rank + a] = in.sizes[in.ndim - rank + a];
    shape.out[3 - rank + a] = out.sizes[out.ndim - rank + a];
  }
  return shape;
}

}  // namespace hp::ops
