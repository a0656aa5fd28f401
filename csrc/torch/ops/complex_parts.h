// Complex tensors as real and imaginary parts, for operators that only add and move elements.
#pragma once

#include <ATen/ops/complex.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/real.h>

#include "ops/op_helpers.h"

namespace hp::torch_adapter {

// Applies `function` to the real and the imaginary part and combines the results; nothing if it declines.
template <class Function>
OptionalTensor map_complex_parts(const Tensor& tensor, Function function) {
  const OptionalTensor re = function(at::real(tensor)), im = re ? function(at::imag(tensor)) : std::nullopt;
  return im ? OptionalTensor(at::complex(*re, *im)) : std::nullopt;
}

}  // namespace hp::torch_adapter
