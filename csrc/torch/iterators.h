// Set-ups of TensorIterator that it does not name itself, for overloads without a structured kernel, and what stands
// for their absent attributes.
#pragma once

#include <ATen/TensorIterator.h>

namespace hp::torch_adapter {

// The output is real; of a whole number it is floating-point if `to_float`.
at::TensorIterator real_iterator(const at::Tensor& output, const at::Tensor& self, bool to_float);
// The output is complex, of two real inputs.
at::TensorIterator complex_iterator(const at::Tensor& output, const at::Tensor& first, const at::Tensor& second);
at::TensorIterator scalar_first_iterator(const at::Tensor& output, const at::Scalar& first, const at::Tensor& second);
at::TensorIterator scalar_last_iterator(const at::Tensor& output, const at::Tensor& first, const at::Scalar& second);

// The first or the second half along a dimension.
at::Tensor half_of(const at::Tensor& self, int64_t dim, int64_t part);

// The limits of all numbers of a dtype, and of the finite ones.
at::Scalar lowest(const at::Tensor& like);
at::Scalar highest(const at::Tensor& like);
double lowest_finite(const at::Tensor& like);
double highest_finite(const at::Tensor& like);

}  // namespace hp::torch_adapter
