// Tensors whose bytes are moved, not computed with: seen as integers of the same size, so that one kernel serves every
// dtype of that size.
#pragma once

#include "dimensions.h"

namespace hp {

inline DType word_of(int bytes) {
  switch (bytes) {
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
inline DType word_of(DType dtype) { return word_of(info(dtype).bytes); }
inline int words_of(DType dtype) { return info(dtype).bytes == 16 ? 2 : 1; }

// A view of the words of another, with strides that may be negative. An element of 16 bytes is a dimension of its own.
struct Words {
  explicit Words(const View& given) : Words(given, info(given.dtype).bytes) {}
  // For a dtype that the core does not know, with elements of that many bytes.
  Words(const View& given, int bytes) : view(given) {
    view.dtype = word_of(bytes);
    const bool pairs = bytes == 16;
    for (int d = 0; d < given.ndim; ++d) {
      sizes[d] = given.sizes[d];
      strides[d] = given.strides[d] * (pairs ? 2 : 1);
    }
    if (pairs) sizes[view.ndim] = 2, strides[view.ndim++] = 1;
    view.sizes = sizes;
    view.strides = strides;
  }
  Words(const Words&) = delete;
  // Starts `elements` words further on.
  void advance(int64_t elements) { view.data = static_cast<char*>(view.data) + elements * info(view.dtype).bytes; }

  View view;
  int64_t sizes[kMostDimensions], strides[kMostDimensions];
};

}  // namespace hp
