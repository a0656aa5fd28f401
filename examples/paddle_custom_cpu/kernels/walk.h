// Visits every element of a dense result, and says where the operands have theirs.
#pragma once

#include <cstdint>
#include <vector>

#include "phi.h"

namespace custom_cpu {

using Extents = std::vector<int64_t>;

// The distance, in elements, between neighbours of a dense tensor in each dimension of a result with `rank`
// dimensions. Dimensions that are missing, or of length 1, are repeated: their distance is 0.
inline Extents broadcast_strides(const phi::DDim& dims, int rank) {
  Extents strides(rank, 0);
  int64_t distance = 1;
  for (int i = dims.size() - 1; i >= 0; --i) {
    if (dims[i] != 1) strides[rank - dims.size() + i] = distance;
    distance *= dims[i];
  }
  return strides;
}

// Calls visit(position in the result, position in a, position in b).
template <class Visit>
void walk(const Extents& dims, const Extents& a, const Extents& b, const Visit& visit) {
  int64_t count = 1;
  for (int64_t extent : dims) count *= extent;
  Extents index(dims.size(), 0);
  int64_t at_a = 0, at_b = 0;
  for (int64_t i = 0; i < count; ++i) {
    visit(i, at_a, at_b);
    for (int d = static_cast<int>(dims.size()) - 1; d >= 0; --d) {
      at_a += a[d];
      at_b += b[d];
      if (++index[d] < dims[d]) break;
      at_a -= a[d] * dims[d];
      at_b -= b[d] * dims[d];
      index[d] = 0;
    }
  }
}

}  // namespace custom_cpu
