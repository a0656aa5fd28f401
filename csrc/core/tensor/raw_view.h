// Views as integers of the element size, for operators that only move data: one kernel serves all dtypes of that size.
#pragma once

#include "core/tensor/collapsed_dims.h"

namespace hp {

inline DType raw_dtype(int bytes) {
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
inline DType raw_dtype(DType dtype) { return raw_dtype(info(dtype).bytes); }
inline int raw_units(DType dtype) { return info(dtype).bytes == 16 ? 2 : 1; }

// A view reinterpreted with an integer dtype. A 16-byte element becomes an extra dimension of two int64.
struct RawView {
  explicit RawView(const View& source) : RawView(source, info(source.dtype).bytes) {}
  // For elements of `bytes` bytes of a dtype that the core does not know.
  RawView(const View& source, int bytes) : view(source) {
    view.dtype = raw_dtype(bytes);
    const bool pairs = bytes == 16;
    for (int d = 0; d < source.ndim; ++d) {
      sizes[d] = source.sizes[d];
      strides[d] = source.strides[d] * (pairs ? 2 : 1);
    }
    if (pairs) sizes[view.ndim] = 2, strides[view.ndim++] = 1;
    view.sizes = sizes;
    view.strides = strides;
  }
  RawView(const RawView&) = delete;
  // Moves the start of the view by `elements` raw elements.
  void advance(int64_t elements) { view.data = static_cast<char*>(view.data) + elements * info(view.dtype).bytes; }

  View view;
  int64_t sizes[kMaxViewRank], strides[kMaxViewRank];
};

}  // namespace hp
