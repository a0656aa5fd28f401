// Reductions by one rule: what they give, of the elements along the dimensions that have a bit in `dims`. out has the
// kept dimensions, and with keepdim the reduced ones too.
#pragma once

#include "../core/service.h"

namespace hp::ops {

// One of the operators that need nothing but dimensions.
using Reducer = bool(const Service& service, Device& device, const View& out, const View& self, uint64_t dims,
                     bool keepdim);
Reducer sum, nansum, mean, prod, amax, amin, any, all;

bool vector_norm(const Service& service, Device& device, const View& out, const View& self, double ord, uint64_t dims,
                 bool keepdim);

bool aminmax(const Service& service, Device& device, const View& smallest, const View& largest, const View& self,
             uint64_t dims, bool keepdim);

// self is a matrix, out has no dimensions.
bool trace(const Service& service, Device& device, const View& out, const View& self);

// self and other are contiguous and alike; out has no dimensions, and the dtype bool.
bool equal(const Service& service, Device& device, const View& out, const View& self, const View& other);

}  // namespace hp::ops
