// Reflection and replication padding. `padding` is as in torch: before and after the last dimension, then the second to
// last, and so on; negative amounts crop. Tensors are contiguous.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

bool reflection_pad(const OpBinding& binding, Device& device, const View& out, const View& self, const int64_t* padding,
                    int64_t count);
bool reflection_pad_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad,
                             const int64_t* padding, int64_t count);
bool replication_pad(const OpBinding& binding, Device& device, const View& out, const View& self,
                     const int64_t* padding, int64_t count);
bool replication_pad_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad,
                              const int64_t* padding, int64_t count);

}  // namespace hp::ops
