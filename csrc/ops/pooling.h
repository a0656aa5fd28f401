// Pooling over the last two or three dimensions (`rank`) and its backward. All tensors are contiguous; indices are
// int64 offsets within a plane.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

// One entry per pooled dimension.
struct PoolingWindow {
  int64_t kernel[3], stride[3], padding[3], dilation[3];
};

bool max_pool(const OpBinding& binding, Device& device, const View& out, const View& indices, const View& self,
              const PoolingWindow& windows, int rank);
bool adaptive_max_pool(const OpBinding& binding, Device& device, const View& out, const View& indices, const View& self,
                       int rank);
// samples: (batch, channels, rank).
bool fractional_max_pool(const OpBinding& binding, Device& device, const View& out, const View& indices,
                         const View& self, const View& samples, const int64_t* kernel, int rank);
// Backward of all max poolings; faster on some devices with the windows of max_pool.
bool max_pool_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad,
                       const View& indices, int rank, const PoolingWindow* windows = nullptr);
// Writes self to `out` at `indices`, zero elsewhere. Out-of-range indices are skipped.
bool max_unpool(const OpBinding& binding, Device& device, const View& out, const View& self, const View& indices,
                int rank);

// Divisor 0: the number of elements in the window, including padding if `include_pad`.
bool avg_pool(const OpBinding& binding, Device& device, const View& out, const View& self, const PoolingWindow& windows,
              bool include_pad, int64_t divisor, int rank);
bool avg_pool_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad,
                       const PoolingWindow& windows, bool include_pad, int64_t divisor, int rank);
bool adaptive_avg_pool(const OpBinding& binding, Device& device, const View& out, const View& self, int rank);
bool adaptive_avg_pool_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad,
                                int rank);

}  // namespace hp::ops
