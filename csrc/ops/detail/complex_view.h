// Complex tensors viewed as real ones, for sums and products of their parts.
#pragma once

#include "core/tensor/view.h"

namespace hp::ops {

// The dtype of a complex dtype's parts; other dtypes unchanged.
inline DType real_dtype(DType dtype) {
  return dtype == DType::kC64 ? DType::kF32 : dtype == DType::kC128 ? DType::kF64 : dtype;
}

// A complex view with real and imaginary parts as an extra last dimension; other views unchanged.
struct ComplexAsReal {
  explicit ComplexAsReal(const View& source) : view(source) {
    if (!is_complex(source.dtype) || source.ndim > 63) return;
    for (int d = 0; d < source.ndim; ++d) {
      sizes[d] = source.sizes[d];
      strides[d] = source.strides[d] * 2;
    }
    sizes[view.ndim] = 2;
    strides[view.ndim++] = 1;
    view.dtype = real_dtype(source.dtype);
    view.sizes = sizes;
    view.strides = strides;
  }
  ComplexAsReal(const ComplexAsReal&) = delete;

  View view;
  int64_t sizes[64], strides[64];
};

// The real part (0) or the imaginary part (1) of a complex view.
struct ComplexPart {
  ComplexPart(const View& source, int which) : view(source) {
    view.dtype = real_dtype(source.dtype);
    view.data = static_cast<char*>(source.data) + which * info(view.dtype).bytes;
    for (int d = 0; d < source.ndim; ++d) strides[d] = source.strides[d] * 2;
    view.strides = strides;
  }
  ComplexPart(const ComplexPart&) = delete;

  View view;
  int64_t strides[64];
};

}  // namespace hp::ops
