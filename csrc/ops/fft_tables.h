// Roots of unity on a device: what transforms of one size read.
#pragma once

#include <memory>

#include "../core/service.h"

namespace hp::ops {

// How lines of n elements are transformed.
struct FourierPlan {
  explicit FourierPlan(int64_t n);
  int64_t size;    // of the transforms that are made; n itself, or that of a convolution
  bool bluestein;  // n has a large prime factor: by a convolution with a chirp
};

// The table for that plan as kernels/fft.c describes it, in a real dtype. Tables stay on the device for the next
// call of the size, up to a limit; beyond it the pointer keeps one for launches on the current stream.
std::shared_ptr<const void> fourier_table(Device& device, int64_t n, DType real);

}  // namespace hp::ops
