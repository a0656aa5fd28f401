// Fills, sequences, identity matrices and complex tensors.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

// Sets every element to the same bytes, with the portable kernel only: vendor kernels take a number. `words` holds
// raw_units(dtype) integers of raw_dtype(dtype).
bool fill(const OpBinding& binding, Device& device, const View& out, const int64_t* words);

// Sets every element to one value in device memory; value has out's sizes and strides of 0.
bool fill_from(const OpBinding& binding, Device& device, const View& out, const View& value);

// Sequences. out must be contiguous.
bool arange(const OpBinding& binding, Device& device, const View& out, double start, double step);
bool arange(const OpBinding& binding, Device& device, const View& out, int64_t start, int64_t step);
bool linspace(const OpBinding& binding, Device& device, const View& out, double start, double end);
bool logspace(const OpBinding& binding, Device& device, const View& out, double start, double end, double base);

// The identity; out is a contiguous matrix.
bool eye(const OpBinding& binding, Device& device, const View& out);

// out = real + i imag; all three have the same sizes.
bool complex(const OpBinding& binding, Device& device, const View& out, const View& real, const View& imag);

}  // namespace hp::ops
