// Reductions over segments of `axis`. Offsets are int64: for every index before the axis, the start of each segment and
// the end of the last. All views are contiguous; none is empty.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

enum SegmentReduction { kSegmentMax, kSegmentMean, kSegmentMin, kSegmentSum, kSegmentProd };

// Starts from `initial`. Without has_initial, the mean of an empty segment is NaN.
bool segment_reduce(const OpBinding& binding, Device& device, const View& out, const View& data, const View& offsets,
                    int64_t reduction, int64_t axis, bool has_initial, double initial);
// out must be zeroed.
bool segment_reduce_backward(const OpBinding& binding, Device& device, const View& out, const View& grad,
                             const View& result, const View& data, const View& offsets, int64_t reduction, int64_t axis,
                             double initial);

}  // namespace hp::ops
