// Pooling over the last two or three dimensions (`rank`). All tensors are contiguous; indices are int64 and count
// within a plane.
#pragma once

#include "../core/service.h"

namespace hp::ops {

// One entry for each pooled dimension.
struct PoolWindows {
  int64_t kernel[3], stride[3], padding[3], dilation[3];
};

bool max_pool(const Service& service, Device& device, const View& out, const View& indices, const View& self,
              const PoolWindows& windows, int rank);
bool adaptive_max_pool(const Service& service, Device& device, const View& out, const View& indices, const View& self,
                       int rank);
// Samples: (batch, channels, rank).
bool fractional_max_pool(const Service& service, Device& device, const View& out, const View& indices, const View& self,
                         const View& samples, const int64_t* kernel, int rank);
// The gradient of all of these; faster on some devices where the windows of max_pool are given.
bool max_pool_backward(const Service& service, Device& device, const View& grad_input, const View& grad,
                       const View& indices, int rank, const PoolWindows* windows = nullptr);
// out = self at the places that indices name, zero elsewhere. An index out of range is skipped.
bool max_unpool(const Service& service, Device& device, const View& out, const View& self, const View& indices,
                int rank);

// A divisor of 0 stands for the number of elements in the window, with or without those of the padding.
bool avg_pool(const Service& service, Device& device, const View& out, const View& self, const PoolWindows& windows,
              bool include_pad, int64_t divisor, int rank);
bool avg_pool_backward(const Service& service, Device& device, const View& grad_input, const View& grad,
                       const PoolWindows& windows, bool include_pad, int64_t divisor, int rank);
bool adaptive_avg_pool(const Service& service, Device& device, const View& out, const View& self, int rank);
bool adaptive_avg_pool_backward(const Service& service, Device& device, const View& grad_input, const View& grad,
                                int rank);

}  // namespace hp::ops
