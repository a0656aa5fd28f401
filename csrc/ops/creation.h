// Fills and sequences.
#pragma once

#include "../core/service.h"

namespace hp::ops {

// out = the same bytes in every element, by our kernel: the vendor's takes a number. An element is as many words of
// `word_of` as `words_of` says.
bool fill(const Service& service, Device& device, const View& out, const int64_t* words);

// out = one value of the device's memory everywhere; value has out's sizes and strides of 0.
bool fill_from(const Service& service, Device& device, const View& out, const View& value);

// Sequences; out is contiguous.
bool arange(const Service& service, Device& device, const View& out, double start, double step);
bool arange(const Service& service, Device& device, const View& out, int64_t start, int64_t step);
bool linspace(const Service& service, Device& device, const View& out, double start, double end);
bool logspace(const Service& service, Device& device, const View& out, double start, double end, double base);

// out = a contiguous matrix with ones on its diagonal.
bool eye(const Service& service, Device& device, const View& out);

// out = real + i imag; the three have the same sizes.
bool complex(const Service& service, Device& device, const View& out, const View& real, const View& imag);

}  // namespace hp::ops
