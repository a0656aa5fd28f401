// Discrete Fourier transforms. All views are contiguous; dims are distinct and not negative. Normalization divides by
// 0: nothing, 1: the square root of the number of elements, 2: the number of elements.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

bool fft_c2c(const OpBinding& binding, Device& device, const View& out, const View& self, const int64_t* dims,
             int64_t num_dims, int64_t normalization, bool forward);
bool fft_r2c(const OpBinding& binding, Device& device, const View& out, const View& self, const int64_t* dims,
             int64_t num_dims, int64_t normalization, bool onesided);
// The last of `dims` is onesided in self.
bool fft_c2r(const OpBinding& binding, Device& device, const View& out, const View& self, const int64_t* dims,
             int64_t num_dims, int64_t normalization);

}  // namespace hp::ops
