// The largest or smallest element along a dimension, and where it is.
#pragma once

#include "../core/service.h"

namespace hp::ops {

// places has the dtype int64, and the dimensions of self but `dim`, which with keepdim stays with size 1.
bool argmax(const Service& service, Device& device, const View& places, const View& self, int64_t dim, bool keepdim);
bool argmin(const Service& service, Device& device, const View& places, const View& self, int64_t dim, bool keepdim);

// The element as well; both outputs have the same strides.
bool max_dim(const Service& service, Device& device, const View& values, const View& places, const View& self,
             int64_t dim, bool keepdim);
bool min_dim(const Service& service, Device& device, const View& values, const View& places, const View& self,
             int64_t dim, bool keepdim);

}  // namespace hp::ops
