// Complex tensors by their parts, for operators that add up and move only.
#pragma once

#include <ATen/ops/complex.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/real.h>

#include "custom.h"

namespace hp::torch_adapter {

// What a function makes of the real parts and of the imaginary ones; nothing where it declines.
template <class Function>
OptionalTensor by_parts(const Tensor& given, Function function) {
  const OptionalTensor re = function(at::real(given)), im = re ? function(at::imag(given)) : std::nullopt;
  return im ? OptionalTensor(at::complex(*re, *im)) : std::nullopt;
}

}  // namespace hp::torch_adapter
