// Running totals and extremes along a dimension. All views are contiguous and of one shape.
#pragma once

#include "../core/service.h"

namespace hp::ops {

using Scan = bool(const Service& service, Device& device, const View& out, const View& self, int64_t dim);
Scan cumsum, cumprod, logcumsumexp;

using ScanWithPlaces = bool(const Service& service, Device& device, const View& values, const View& places,
                            const View& self, int64_t dim);
ScanWithPlaces cummax, cummin;

}  // namespace hp::ops
