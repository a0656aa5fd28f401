// Reductions of runs of rows along a dimension, `axis`. Offsets are 64-bit: for every index before the axis, where each
// segment starts and the last one ends. All views are contiguous; none is empty.
#pragma once

#include "../core/service.h"

namespace hp::ops {

enum SegmentReduction { kSegmentMax, kSegmentMean, kSegmentMin, kSegmentSum, kSegmentProd };

// `initial` is what to start with; without one that was given, an empty segment's mean is NaN.
bool segment_reduce(const Service& service, Device& device, const View& out, const View& data, const View& offsets,
                    int64_t reduction, int64_t axis, bool has_initial, double initial);
// out holds zeros.
bool segment_reduce_backward(const Service& service, Device& device, const View& out, const View& grad,
                             const View& result, const View& data, const View& offsets, int64_t reduction, int64_t axis,
                             double initial);

}  // namespace hp::ops
