// Cumulative sums, products and extremes along a dimension. All views are contiguous and of one shape.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

using Scan = bool(const OpBinding& binding, Device& device, const View& out, const View& self, int64_t dim);
Scan cumsum, cumprod, logcumsumexp;

using ScanWithIndices = bool(const OpBinding& binding, Device& device, const View& values, const View& indices,
                             const View& self, int64_t dim);
ScanWithIndices cummax, cummin;

}  // namespace hp::ops
