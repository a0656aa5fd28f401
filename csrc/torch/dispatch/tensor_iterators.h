// For the generated wrappers: TensorIterator configurations of overloads without a structured kernel, and defaults of
// their optional attributes.
#pragma once

#include <ATen/TensorIterator.h>

namespace hp::torch_adapter {

// Real output; integer inputs give floating-point if `to_float`.
at::TensorIterator real_iterator(const at::Tensor& output, const at::Tensor& self, bool to_float);
// Complex output from two real inputs.
at::TensorIterator complex_iterator(const at::Tensor& output, const at::Tensor& first, const at::Tensor& second);
at::TensorIterator scalar_first_iterator(const at::Tensor& output, const at::Scalar& first, const at::Tensor& second);
at::TensorIterator scalar_last_iterator(const at::Tensor& output, const at::Tensor& first, const at::Scalar& second);

// Half `part` (0 or 1) of the tensor along a dimension.
at::Tensor half_of(const at::Tensor& self, int64_t dim, int64_t part);

// The lowest and highest values of the tensor's dtype, including infinities, and its finite limits.
at::Scalar lowest(const at::Tensor& like);
at::Scalar highest(const at::Tensor& like);
double lowest_finite(const at::Tensor& like);
double highest_finite(const at::Tensor& like);

}  // namespace hp::torch_adapter
