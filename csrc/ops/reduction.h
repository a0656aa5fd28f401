// Reductions over the dimensions whose bit is set in `dims`. out has the other dimensions, and with keepdim the reduced
// ones with size 1.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

// Signature of reductions without further parameters.
using Reducer = bool(const OpBinding& binding, Device& device, const View& out, const View& self, uint64_t dims,
                     bool keepdim);
Reducer sum, nansum, mean, prod, amax, amin, any, all;

bool vector_norm(const OpBinding& binding, Device& device, const View& out, const View& self, double ord, uint64_t dims,
                 bool keepdim);

bool aminmax(const OpBinding& binding, Device& device, const View& smallest, const View& largest, const View& self,
             uint64_t dims, bool keepdim);

// self is a matrix, out has no dimensions.
bool trace(const OpBinding& binding, Device& device, const View& out, const View& self);

// self and other are contiguous, with the same sizes and dtype; out is bool and has no dimensions.
bool equal(const OpBinding& binding, Device& device, const View& out, const View& self, const View& other);

// 64-bit hash of each row of a contiguous matrix; out has one 64-bit element per row.
bool hash_tensor(const OpBinding& binding, Device& device, const View& out, const View& self);

}  // namespace hp::ops
