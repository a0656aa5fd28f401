// Softmax, its logarithm, and the logarithm of a sum of exponentials.
#pragma once

#include "../core/service.h"

namespace hp::ops {

// All views are contiguous. out may be of a wider dtype than self.
bool softmax(const Service& service, Device& device, const View& out, const View& self, int64_t dim, bool logarithm);

// `output` is the result of the forward pass; grad has its dtype, and out that of the forward pass' input.
bool softmax_backward(const Service& service, Device& device, const View& out, const View& grad, const View& output,
                      int64_t dim, bool logarithm);

// Along the last dimension, which out does not have.
bool logsumexp(const Service& service, Device& device, const View& out, const View& self);

}  // namespace hp::ops
