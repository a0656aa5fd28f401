// 1D to 3D convolutions, regular and transposed, and their gradients.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

// Arrays have one entry per spatial dimension.
struct ConvolutionAttributes {
  const int64_t *stride, *padding, *dilation, *output_padding;
  int dimensions;
  bool transposed;
  int64_t groups;
};

// `bias` is contiguous or undefined.
bool convolution(const OpBinding& binding, Device& device, const View& out, const View& input, const View& weight,
                 const View& bias, const ConvolutionAttributes& attributes);

// Computes the gradients whose views are defined. grad_bias is contiguous. `input_kernel` and `weight_kernel` are
// vendor kernels for one gradient each, or null.
bool convolution_backward(const OpBinding& binding, const Kernel* input_kernel, const Kernel* weight_kernel,
                          Device& device, const View& grad_input, const View& grad_weight, const View& grad_bias,
                          const View& grad, const View& input, const View& weight,
                          const ConvolutionAttributes& attributes);

}  // namespace hp::ops
