// Operators that put elements elsewhere.
#pragma once

#include "../core/service.h"

namespace hp::ops {

// out = the parts one after another along `dim`. Parts have as many dimensions as out, and may need conversion.
bool cat(const Service& service, Device& device, const View& out, const View* parts, int64_t count, int64_t dim);

// out = self with the order reversed along each of `dims`.
bool flip(const Service& service, Device& device, const View& out, const View& self, const int64_t* dims,
          int64_t count);

// out = self with each dimension rotated by its shift, which is between 0 and the size.
bool roll(const Service& service, Device& device, const View& out, const View& self, const int64_t* shifts);

// out = self, zero below (upper) or above (lower) the diagonal of each matrix. Both contiguous; they may be one.
bool triu(const Service& service, Device& device, const View& out, const View& self, int64_t diagonal);
bool tril(const Service& service, Device& device, const View& out, const View& self, int64_t diagonal);

// out = self with `groups` runs of channels interleaved; dimension 1 holds the channels.
bool channel_shuffle(const Service& service, Device& device, const View& out, const View& self, int64_t groups);

// The gradient of unfold: grad_input = sums of the windows of `size`, each `step` after the last, in the last dimension
// of grad. Both contiguous.
bool unfold_backward(const Service& service, Device& device, const View& grad_input, const View& grad, int64_t dim,
                     int64_t size, int64_t step);

// Sliding windows over the last two of (batch, channels, height, width), as columns, and back by adding up. Each
// attribute is a pair for height and width. All contiguous.
struct Windows {
  int64_t kernel[2], dilation[2], padding[2], stride[2];
};
bool im2col(const Service& service, Device& device, const View& out, const View& self, const Windows& windows);
bool col2im(const Service& service, Device& device, const View& out, const View& columns, const Windows& windows);

}  // namespace hp::ops
