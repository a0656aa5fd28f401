// Tensors whose bytes are moved, not computed with: seen as integers of the same size, so that one kernel serves every
// dtype of that size.
#pragma once

#include "../core/copy_views.h"
#include "../core/operator.h"
#include "../core/view.h"

namespace hp::ops {

inline DType word_of(DType dtype) {
  switch (info(dtype).bytes) {
    case 1:
      return DType::kU8;
    case 2:
      return DType::kI16;
    case 4:
      return DType::kI32;
    default:
      return DType::kI64;  // two of them for 16 bytes
  }
}
inline int64_t words_of(DType dtype) { return info(dtype).bytes == 16 ? 2 : 1; }

// A view of the words of another, with strides that may be negative. An element of 16 bytes is a dimension of its own.
struct Words {
  explicit Words(const View& given) : view(given) {
    const bool pairs = words_of(given.dtype) == 2;
    for (int d = 0; d < given.ndim; ++d) {
      sizes[d] = given.sizes[d];
      strides[d] = given.strides[d] * (pairs ? 2 : 1);
    }
    if (pairs) sizes[view.ndim] = 2, strides[view.ndim++] = 1;
    view.dtype = word_of(given.dtype);
    view.sizes = sizes;
    view.strides = strides;
  }
  Words(const Words&) = delete;
  // Starts `elements` words further on.
  void advance(int64_t elements) { view.data = static_cast<char*>(view.data) + elements * info(view.dtype).bytes; }

  View view;
  int64_t sizes[kMaxDimensions + 1], strides[kMaxDimensions + 1];
};

}  // namespace hp::ops
