// Operators that rearrange elements: concatenation, flips, rotations, triangles and sliding windows.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

// Concatenates the parts along `dim`. Parts have as many dimensions as out; their dtypes may differ from out's.
bool cat(const OpBinding& binding, Device& device, const View& out, const View* parts, int64_t count, int64_t dim);

// out = self reversed along each of `dims`.
bool flip(const OpBinding& binding, Device& device, const View& out, const View& self, const int64_t* dims,
          int64_t count);

// out = self rotated along each dimension d by shifts[d], 0 <= shifts[d] <= size.
bool roll(const OpBinding& binding, Device& device, const View& out, const View& self, const int64_t* shifts);

// The upper or lower triangle of each matrix, zero elsewhere. out and self are contiguous; out may be self.
bool triu(const OpBinding& binding, Device& device, const View& out, const View& self, int64_t diagonal);
bool tril(const OpBinding& binding, Device& device, const View& out, const View& self, int64_t diagonal);

// out = self with its `groups` groups of channels (dimension 1) interleaved.
bool channel_shuffle(const OpBinding& binding, Device& device, const View& out, const View& self, int64_t groups);

// Gradient of unfold: the last dimension of grad holds windows of `size` elements, `step` apart; adds them to
// grad_input. Both are contiguous.
bool unfold_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad, int64_t dim,
                     int64_t size, int64_t step);

// im2col copies the sliding windows of a (batch, channels, height, width) image to columns; col2im adds columns back to
// the image. Each attribute is (height, width). All views are contiguous.
struct Im2colWindow {
  int64_t kernel[2], dilation[2], padding[2], stride[2];
};
bool im2col(const OpBinding& binding, Device& device, const View& out, const View& self, const Im2colWindow& window);
bool col2im(const OpBinding& binding, Device& device, const View& out, const View& columns, const Im2colWindow& window);

}  // namespace hp::ops
