// Order along a dimension. All views are contiguous; places have the dtype int64 and the sizes of values.
#pragma once

#include "../core/service.h"

namespace hp::ops {

bool sort(const Service& service, Device& device, const View& values, const View& places, const View& self, int64_t dim,
          bool descending, bool stable);

// `sorted` is for the vendor's kernel; ours always sorts.
bool topk(const Service& service, Device& device, const View& values, const View& places, const View& self, int64_t k,
          int64_t dim, bool largest, bool sorted);

// k counts from 1. Outputs have the dimensions of self but `dim`, which with keepdim stays with size 1.
bool kthvalue(const Service& service, Device& device, const View& values, const View& places, const View& self,
              int64_t k, int64_t dim, bool keepdim);

using PickOne = bool(const Service& service, Device& device, const View& values, const View& places, const View& self,
                     int64_t dim, bool keepdim);
PickOne median, nanmedian, mode;

}  // namespace hp::ops
