// Matrix products, batched or not, and dot products.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

// A scalar factor. Integer dtypes use `integer`, the others `real`.
struct Factor {
  double real = 1;
  int64_t integer = 1;
};

// out = a @ b, for two matrices or two batches of matrices. For the operator wide_matmul, the output's dtype is int32
// if a is int8, and may be float32 if a is a 16-bit float.
bool matmul(const OpBinding& binding, Device& device, const View& out, const View& a, const View& b);

// out = beta * self + alpha * a @ b. `self` has the sizes of out (broadcast with stride 0), or is undefined if beta is
// zero, when its values (NaN) must not matter. `product` is the vendor kernel for a @ b, or null; used if the vendor
// has no kernel for addmm.
bool addmm(const OpBinding& binding, const Kernel* product, Device& device, const View& out, const View& self,
           const View& a, const View& b, Factor beta, Factor alpha);

// The same with the portable kernel and without counting the call, for use inside other operators. `self` may be
// undefined; for complex dtypes it must be, and alpha must be 1. `out` and `self` may have a's accumulation dtype, or
// int32 if a is int8.
bool launch_matmul(const OpBinding& binding, Device& device, const View& out, const View& self, const View& a,
                   const View& b, Factor beta, Factor alpha);

// out = the dot product of two vectors.
bool dot(const OpBinding& binding, Device& device, const View& out, const View& a, const View& b);

}  // namespace hp::ops
