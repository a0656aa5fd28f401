// Resampling of the last one to three dimensions (`rank`) and its backward. All tensors are contiguous.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

enum class Resampling { kNearest, kNearestExact, kLinear, kCubic };  // MODE in the kernels

// `scales` has one factor per dimension; 0 means the ratio of the sizes.
bool upsample(const OpBinding& binding, Device& device, const View& out, const View& self, Resampling mode, bool align,
              const double* scales, int rank);
bool upsample_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad,
                       Resampling mode, bool align, const double* scales, int rank);

// Antialiased 2D resampling, linear or cubic: the filter widens when downsampling.
bool upsample_antialiased(const OpBinding& binding, Device& device, const View& out, const View& self, Resampling mode,
                          bool align, const double* scales);
bool upsample_antialiased_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad,
                                   Resampling mode, bool align, const double* scales);

}  // namespace hp::ops
