// Sorting and order statistics along a dimension. All views are contiguous; indices are int64 and sized like values.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

bool sort(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
          int64_t dim, bool descending, bool stable);

// `sorted` is passed to the vendor kernel; the portable one always sorts.
bool topk(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
          int64_t k, int64_t dim, bool largest, bool sorted);

// k counts from 1. Outputs have the dimensions of self without `dim`, or with size 1 there if keepdim.
bool kthvalue(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
              int64_t k, int64_t dim, bool keepdim);

using SelectAlongDim = bool(const OpBinding& binding, Device& device, const View& values, const View& indices,
                            const View& self, int64_t dim, bool keepdim);
SelectAlongDim median, nanmedian, mode;

}  // namespace hp::ops
