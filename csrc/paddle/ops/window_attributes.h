// Reads Paddle's layout, stride and padding attributes. For convolution, pooling, padding and normalization.
#pragma once

#include <algorithm>
#include <string>

#include "dispatch/composition.h"

namespace hp::paddle_adapter {

inline bool channels_last(const std::string& format) { return format == "NHWC" || format == "NDHWC"; }

// Views the tensor as N x C x spatial dimensions. `last`: its channels are the last dimension.
inline ShapedView channels_second(const View& tensor, bool last) {
  ShapedView result(tensor);
  if (last) {
    for (int d = tensor.ndim - 1; d > 1; --d) result.swap(d, d - 1);
  }
  return result;
}

// The part of `padded` that holds the unpadded `tensor`. `before` has an entry for each dimension.
inline ShapedView inner_view(const View& padded, const View& tensor, const int64_t* before) {
  ShapedView inner(padded);
  for (int d = 0; d < padded.ndim; ++d) inner.narrow(d, before[d], tensor.sizes[d]);
  return inner;
}

using SpatialSizes = std::array<int64_t, 3>;  // one entry per spatial dimension

// Copies a list with one entry per spatial dimension. False if its length differs.
inline bool read_sizes(const std::vector<int64_t>& list, int rank, SpatialSizes& to) {
  if (static_cast<int>(list.size()) != rank) return false;
  std::copy(list.begin(), list.end(), to.begin());
  return true;
}

// Padding before and after each spatial dimension.
struct Padding {
  SpatialSizes before{}, after{};

  bool is_symmetric() const { return before == after; }
  // From the attributes: a list with one or two entries per dimension, and "EXPLICIT", "SAME" or "VALID". `size` is the
  // size of the image. False if the list has another length.
  bool read(const std::vector<int64_t>& list, const std::string& algorithm, int rank, const int64_t* size,
            const SpatialSizes& stride, const SpatialSizes& kernel) {
    if (algorithm == "VALID") return true;
    if (algorithm == "SAME") {
      for (int d = 0; d < rank; ++d) {
        const int64_t windows = (size[d] + stride[d] - 1) / stride[d];
        const int64_t total = std::max<int64_t>((windows - 1) * stride[d] + kernel[d] - size[d], 0);
        before[d] = total / 2;
        after[d] = total - total / 2;
      }
      return true;
    }
    const int sides = static_cast<int>(list.size()) / rank;
    if (static_cast<int>(list.size()) != rank * sides || (sides != 1 && sides != 2)) return false;
    for (int d = 0; d < rank; ++d) {
      before[d] = list[sides * d];
      after[d] = list[sides * d + sides - 1];
    }
    return true;
  }
};

}  // namespace hp::paddle_adapter
