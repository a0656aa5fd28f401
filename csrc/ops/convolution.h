// Convolutions in one to three dimensions, ordinary and transposed, and their gradients.
#pragma once

#include "../core/service.h"

namespace hp::ops {

// Lists have one entry for each spatial dimension.
struct ConvolutionAttributes {
  const int64_t *stride, *padding, *dilation, *output_padding;
  int dimensions;
  bool transposed;
  int64_t groups;
};

// `bias` may be undefined; it is contiguous.
bool convolution(const Service& service, Device& device, const View& out, const View& input, const View& weight,
                 const View& bias, const ConvolutionAttributes& attributes);

// The gradients; an undefined view is one that is not wanted. grad_bias is contiguous. `input_kernel` and
// `weight_kernel` are the vendor's, if there are any.
bool convolution_backward(const Service& service, const Kernel* input_kernel, const Kernel* weight_kernel,
                          Device& device, const View& grad_input, const View& grad_weight, const View& grad_bias,
                          const View& grad, const View& input, const View& weight,
                          const ConvolutionAttributes& attributes);

}  // namespace hp::ops
