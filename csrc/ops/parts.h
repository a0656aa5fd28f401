// Complex tensors as real ones: sums need no more than that.
#pragma once

#include "../core/view.h"

namespace hp::ops {

// The type of a complex number's parts; else the type itself.
inline DType part_of(DType dtype) {
  return dtype == DType::kC64 ? DType::kF32 : dtype == DType::kC128 ? DType::kF64 : dtype;
}

// The real and imaginary parts of a complex view, as the last dimension; any other view as it is.
struct Parts {
  explicit Parts(const View& given) : view(given) {
    if (!is_complex(given.dtype) || given.ndim > 63) return;
    for (int d = 0; d < given.ndim; ++d) {
      sizes[d] = given.sizes[d];
      strides[d] = given.strides[d] * 2;
    }
    sizes[view.ndim] = 2;
    strides[view.ndim++] = 1;
    view.dtype = part_of(given.dtype);
    view.sizes = sizes;
    view.strides = strides;
  }
  Parts(const Parts&) = delete;

  View view;
  int64_t sizes[64], strides[64];
};

// The real part (0) or the imaginary part (1) of a complex view.
struct Part {
  Part(const View& given, int which) : view(given) {
    view.dtype = part_of(given.dtype);
    view.data = static_cast<char*>(given.data) + which * info(view.dtype).bytes;
    for (int d = 0; d < given.ndim; ++d) strides[d] = given.strides[d] * 2;
    view.strides = strides;
  }
  Part(const Part&) = delete;

  View view;
  int64_t strides[64];
};

}  // namespace hp::ops
