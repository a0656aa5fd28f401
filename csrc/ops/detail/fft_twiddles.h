// Tables of roots of unity in device memory, for FFTs of one size.
#pragma once

#include <memory>

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

// The algorithm for transforms of n elements.
struct FftPlan {
  explicit FftPlan(int64_t n);
  int64_t size;    // transform size: n, or the convolution size with Bluestein
  bool bluestein;  // n has a large prime factor: convolve with a chirp
};

// The table for FftPlan(n), laid out as kernels/sources/fft.c defines, in a real dtype. Tables are cached forever up to
// a total size; beyond it, the returned pointer owns a table for launches on the current stream.
std::shared_ptr<const void> twiddle_table(Device& device, int64_t n, DType real);

}  // namespace hp::ops
