// Softmax, log-softmax, their backward, and logsumexp.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

// All views are contiguous. out may be of a wider dtype than self.
bool softmax(const OpBinding& binding, Device& device, const View& out, const View& self, int64_t dim, bool logarithm);

// `output` is the forward result; grad has its dtype, out has the dtype of the forward input.
bool softmax_backward(const OpBinding& binding, Device& device, const View& out, const View& grad, const View& output,
                      int64_t dim, bool logarithm);

// Reduces the last dimension, which out does not have.
bool logsumexp(const OpBinding& binding, Device& device, const View& out, const View& self);

}  // namespace hp::ops
