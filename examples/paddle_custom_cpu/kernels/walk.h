// Iterates over a dense result together with two strided operands.
#pragma once

#include <cstdint>
#include <vector>

#include "phi.h"

namespace custom_cpu {

using Extents = std::vector<int64_t>;

// Strides, in elements, of a dense tensor broadcast to `rank` dimensions. Missing dimensions and those of size 1 have
// stride 0.
inline Extents broadcast_strides(const phi::DDim& dims, int rank) {
  Extents strides(rank, 0);
  int64_t distance = 1;
  for (int i = dims.size() - 1; i >= 0; --i) {
    if (dims[i] != 1) strides[rank - dims.size() + i] = distance;
    distance *= dims[i];
  }
  return strides;
}

// Calls visit(offset in the result, offset in a, offset in b).
template <class Visit>
void walk(const Extents& dims, const Extents& a, const Extents& b, const Visit& visit) {
  int64_t count = 1;
  for (int64_t extent : dims) count *= extent;
  Extents index(dims.size(), 0);
  int64_t offset_a = 0, offset_b = 0;
  for (int64_t i = 0; i < count; ++i) {
    visit(i, offset_a, offset_b);
    for (int d = static_cast<int>(dims.size()) - 1; d >= 0; --d) {
      offset_a += a[d];
      offset_b += b[d];
      if (++index[d] < dims[d]) break;
      offset_a -= a[d] * dims[d];
      offset_b -= b[d] * dims[d];
      index[d] = 0;
    }
  }
}

}  // namespace custom_cpu
