// Padding from the tensor's own elements. `padding` is torch's: before and after the last dimension, then the one
// before it, and so on; negative amounts cut off. Tensors are contiguous.
#pragma once

#include "../core/service.h"

namespace hp::ops {

bool reflection_pad(const Service& service, Device& device, const View& out, const View& self, const int64_t* padding,
                    int64_t count);
bool reflection_pad_backward(const Service& service, Device& device, const View& grad_input, const View& grad,
                             const int64_t* padding, int64_t count);
bool replication_pad(const Service& service, Device& device, const View& out, const View& self, const int64_t* padding,
                     int64_t count);
bool replication_pad_backward(const Service& service, Device& device, const View& grad_input, const View& grad,
                              const int64_t* padding, int64_t count);

}  // namespace hp::ops
