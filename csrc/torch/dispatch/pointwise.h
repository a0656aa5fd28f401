// Pointwise operators for the generated wrappers: passes TensorIterator's operands to the core, which launches the
// kernels.
#pragma once

#include <ATen/TensorIterator.h>

#include "core/dispatch/pointwise.h"
#include "runtime/adapter.h"
#include "runtime/tensor_view.h"

namespace hp::torch_adapter {

// The variant of an expression, chosen by a string attribute or by the optional attributes that are present.
using Variant = uint32_t;

// Converts a scalar for a computation in `compute`.
inline PointwiseNumber to_number(const at::Scalar& value, DType compute) {
  if (is_float(compute)) return {value.toDouble(), 0, 0};
  if (is_complex(compute)) {
    const auto number = value.toComplexDouble();
    return {number.real(), 0, number.imag()};
  }
  return {0, value.isFloatingPoint() ? static_cast<int64_t>(value.toDouble()) : value.toLong(), 0};
}

// Launches the portable kernel over an iterator with final shapes. `inputs` is in the order of the operator's table,
// with null for a number; the iterator may order them differently. False if there is no kernel for these dtypes: the
// next tier takes the call.
bool launch_iterator(Operator& op, PortableKernelTable& kernels, at::TensorIteratorBase& iterator, DType compute,
                     Variant variant, std::initializer_list<const at::Tensor*> inputs,
                     std::initializer_list<PointwiseNumber> attributes);

// The same with scalar attributes.
template <class... Attributes>
bool portable_pointwise(Operator& op, PortableKernelTable& kernels, at::TensorIteratorBase& iterator,
                        at::ScalarType compute_type, Variant variant, std::initializer_list<const at::Tensor*> inputs,
                        const Attributes&... attributes) {
  if (iterator.numel() == 0) return true;
  const DType compute = to_core(compute_type);
  if (compute == DType::kNone) return false;
  return launch_iterator(op, kernels, iterator, compute, variant, inputs, {to_number(attributes, compute)...});
}

// Arguments of a vendor's pointwise kernel. CPU scalars are passed as numbers. `keeps_dtype`: the input is not
// converted to the computation's dtype.
inline VendorArgument output_of(const at::Tensor& output) { return hp::output(storage_view(output)); }
VendorArgument operand(const at::Scalar& number);
VendorArgument operand(const at::Tensor& tensor, bool keeps_dtype = false);

// Calls the vendor's kernel with the output, the inputs, then the attributes; false if it declined. Takes an array and
// not an initializer list because the views of converted operands are replaced in place.
template <size_t N>
bool vendor_pointwise(Operator& op, const hp::Kernel& kernel, const at::Tensor& output, at::ScalarType compute,
                      VendorArgument (&&arguments)[N]) {
  if (output.numel() == 0) return true;
  return call_vendor_pointwise(op, kernel, device_holding(output), storage_dtype(compute), arguments, arguments + N);
}

}  // namespace hp::torch_adapter
