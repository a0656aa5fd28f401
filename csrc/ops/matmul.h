// Matrix products.
#pragma once

#include "../core/service.h"

namespace hp::ops {

// A number in front of an operand; integer dtypes use the whole number.
struct Factor {
  double real = 1;
  int64_t integer = 1;
};

// out = a @ b: two matrices, or two batches of matrices.
bool matmul(const Service& service, Device& device, const View& out, const View& a, const View& b);

// out = beta * self + alpha * a @ b. `self` has the sizes of out (broadcast by stride 0), or is undefined where beta is
// zero: what is in it must not matter then. `product` is the vendor's kernel for the product alone, if there is one: it
// is used where the vendor has none for the whole.
bool addmm(const Service& service, const Kernel* product, Device& device, const View& out, const View& self,
           const View& a, const View& b, Factor beta, Factor alpha);

// The same with our kernel, as a part of another operator's work: nothing is counted. `self` may be undefined; for
// complex numbers it must be, and alpha is 1. `out` and `self` may have the dtype that sums of a's are gathered in.
bool launch_product(const Service& service, Device& device, const View& out, const View& self, const View& a,
                    const View& b, Factor beta, Factor alpha);

// out = the inner product of two vectors.
bool dot(const Service& service, Device& device, const View& out, const View& a, const View& b);

}  // namespace hp::ops
