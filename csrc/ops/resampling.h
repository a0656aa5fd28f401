// Resampling of the last one to three dimensions (`rank`). All tensors are contiguous.
#pragma once

#include "../core/service.h"

namespace hp::ops {

enum class Resampling { kNearest, kNearestExact, kLinear, kCubic };  // the kernels' MODE

// Scales are the caller's factors, one for each dimension; 0 takes the ratio of the sizes.
bool upsample(const Service& service, Device& device, const View& out, const View& self, Resampling mode, bool align,
              const double* scales, int rank);
bool upsample_backward(const Service& service, Device& device, const View& grad_input, const View& grad,
                       Resampling mode, bool align, const double* scales, int rank);

// Two dimensions, with a filter that is wide enough for a smaller output: linear or cubic.
bool upsample_antialiased(const Service& service, Device& device, const View& out, const View& self, Resampling mode,
                          bool align, const double* scales);
bool upsample_antialiased_backward(const Service& service, Device& device, const View& grad_input, const View& grad,
                                   Resampling mode, bool align, const double* scales);

}  // namespace hp::ops
