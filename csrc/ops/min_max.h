// Largest or smallest element along a dimension, and its index.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

// indices is int64 and has the dimensions of self without `dim`, or with size 1 there if keepdim.
bool argmax(const OpBinding& binding, Device& device, const View& indices, const View& self, int64_t dim, bool keepdim);
bool argmin(const OpBinding& binding, Device& device, const View& indices, const View& self, int64_t dim, bool keepdim);

// Values and indices; both outputs have the same strides.
bool max_dim(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
             int64_t dim, bool keepdim);
bool min_dim(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
             int64_t dim, bool keepdim);

}  // namespace hp::ops
