// Operators over images: planes of up to three dimensions, the last ones of a tensor.
#pragma once

#include "../core/view.h"

namespace hp::ops {

// The same struct heads the geometries of the kernels. Missing dimensions have size 1 and come first.
struct Planes {
  int64_t count, in[3], out[3];
};

inline Planes planes_of(const View& in, const View& out, int rank) {
  Planes made{1, {1, 1, 1}, {1, 1, 1}};
  for (int d = 0; d < in.ndim - rank; ++d) made.count *= in.sizes[d];
  for (int a = 0; a < rank; ++a) {
    made.in[3 - rank + a] = in.sizes[in.ndim - rank + a];
    made.out[3 - rank + a] = out.sizes[out.ndim - rank + a];
  }
  return made;
}

}  // namespace hp::ops
