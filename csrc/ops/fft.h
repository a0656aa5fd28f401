// Discrete Fourier transforms. All views are contiguous; dimensions are not negative and differ. Normalization 0: none,
// 1: by the square root of the number of elements, 2: by that number.
#pragma once

#include "../core/service.h"

namespace hp::ops {

bool fft_c2c(const Service& service, Device& device, const View& out, const View& self, const int64_t* dims,
             int64_t num_dims, int64_t normalization, bool forward);
bool fft_r2c(const Service& service, Device& device, const View& out, const View& self, const int64_t* dims,
             int64_t num_dims, int64_t normalization, bool onesided);
// The last one of the dimensions has the first half of what becomes out's.
bool fft_c2r(const Service& service, Device& device, const View& out, const View& self, const int64_t* dims,
             int64_t num_dims, int64_t normalization);

}  // namespace hp::ops
