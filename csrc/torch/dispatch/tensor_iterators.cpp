#include "dispatch/tensor_iterators.h"

#include <ATen/ScalarOps.h>

#include <limits>

namespace hp::torch_adapter {
namespace {

template <class T>
int64_t limit_of() {
  return std::numeric_limits<T>::max();
}

double finite_limit(const at::Tensor& like) {
  switch (c10::toRealValueType(like.scalar_type())) {
    case at::kHalf:
      return std::numeric_limits<c10::Half>::max();
    case at::kBFloat16:
      return std::numeric_limits<c10::BFloat16>::max();
    case at::kFloat:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

}  // namespace

at::TensorIterator real_iterator(const at::Tensor& output, const at::Tensor& self, bool to_float) {
  if (!self.is_complex()) {
    at::Tensor target = output;
    return to_float ? at::TensorIterator::unary_float_op(target, self) : at::TensorIterator::unary_op(target, self);
  }
  const at::ScalarType dtype = c10::toRealValueType(self.scalar_type());
  TORCH_CHECK(!output.defined() || at::canCast(dtype, output.scalar_type()), "result type ", dtype,
              " can't be cast to the desired output type ", output.scalar_type());
  auto config = at::TensorIteratorConfig();
  config.check_all_same_dtype(false);
  if (!output.defined()) config.declare_static_dtype(dtype);
  config.add_output(output).add_const_input(self);
  return config.build();
}

at::TensorIterator complex_iterator(const at::Tensor& output, const at::Tensor& first, const at::Tensor& second) {
  const at::ScalarType dtype = first.scalar_type();
  TORCH_CHECK((dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf) && second.is_floating_point(),
              "Expected both inputs to be Half, Float or Double tensors but got ", dtype, " and ",
              second.scalar_type());
  TORCH_CHECK(dtype == second.scalar_type(), "Expected object of scalar type ", dtype, " but got scalar type ",
              second.scalar_type(), " for second argument");
  TORCH_CHECK(output.scalar_type() == c10::toComplexType(dtype), "Expected object of scalar type ",
              c10::toComplexType(dtype), " but got scalar type ", output.scalar_type(), " for argument 'out'");
  auto config = at::TensorIteratorConfig();
  config.check_all_same_dtype(false).add_output(output).add_const_input(first).add_const_input(second);
  return config.build();
}

at::TensorIterator scalar_first_iterator(const at::Tensor& output, const at::Scalar& first, const at::Tensor& second) {
  at::Tensor target = output;
  return at::TensorIterator::binary_op(target, at::native::wrapped_scalar_tensor(first), second);
}

at::TensorIterator scalar_last_iterator(const at::Tensor& output, const at::Tensor& first, const at::Scalar& second) {
  at::Tensor target = output;
  return at::TensorIterator::binary_op(target, first, at::native::wrapped_scalar_tensor(second));
}

double highest_finite(const at::Tensor& like) { return finite_limit(like); }
double lowest_finite(const at::Tensor& like) { return -finite_limit(like); }

at::Scalar highest(const at::Tensor& like) {
  switch (like.scalar_type()) {
    case at::kLong:
      return limit_of<int64_t>();
    case at::kInt:
      return limit_of<int32_t>();
    case at::kShort:
      return limit_of<int16_t>();
    case at::kChar:
      return limit_of<int8_t>();
    case at::kByte:
      return limit_of<uint8_t>();
    default:
      return std::numeric_limits<double>::infinity();
  }
}
at::Tensor half_of(const at::Tensor& self, int64_t dim, int64_t part) {
  const int64_t size = self.size(dim) / 2;
  return self.narrow(dim, part * size, size);
}

at::Scalar lowest(const at::Tensor& like) {
  if (like.scalar_type() == at::kByte) return int64_t{0};
  const at::Scalar high = highest(like);
  return high.isIntegral(false) ? at::Scalar(-high.toLong() - 1) : at::Scalar(-high.toDouble());
}

}  // namespace hp::torch_adapter
