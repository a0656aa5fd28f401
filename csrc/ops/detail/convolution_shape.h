// The shape struct passed to convolution kernels, and matrix views of its tensors.
#pragma once

#include "core/dispatch/template_call.h"

namespace hp::ops {

// Relates x, y and the weight: a regular convolution computes y from x, a transposed one x from y. Layout shared with
// kernels/sources/convolution.c.
struct ConvolutionShape {
  int64_t batch, groups, outer, inner, with_bias;
  int64_t x_size[3], y_size[3], kernel[3], stride[3], padding[3], dilation[3];
  int64_t x[5], y[5], weight[5];
};

inline int64_t round_up(int64_t a, int64_t unit) { return ceil_div(a, unit) * unit; }
inline int64_t volume(const int64_t (&sizes)[3]) { return sizes[0] * sizes[1] * sizes[2]; }

// A batch of matrices with the given strides.
struct MatrixView {
  MatrixView(void* data, DType dtype, int64_t batch, int64_t rows, int64_t columns, int64_t per_batch, int64_t per_row,
             int64_t per_column)
      : sizes{batch, rows, columns}, strides{per_batch, per_row, per_column} {
    view = {data, dtype, 3, sizes, strides};
  }
  MatrixView(const View& tensor, int64_t batch, int64_t rows, int64_t columns, int64_t per_batch, int64_t per_row,
             int64_t per_column)
      : MatrixView(tensor.data, tensor.dtype, batch, rows, columns, per_batch, per_row, per_column) {}
  MatrixView(const MatrixView&) = delete;  // the view points into it
  View view;
  int64_t sizes[3], strides[3];
};

}  // namespace hp::ops
