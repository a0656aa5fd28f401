#include "dispatch/wrappers.h"

#include <ATen/ops/result_type_native.h>

namespace hp::torch_adapter {

void prepare_output(Form form, at::Tensor& output, at::IntArrayRef sizes, at::IntArrayRef strides,
                    const at::TensorOptions& options) {
  const auto dtype = c10::typeMetaToScalarType(options.dtype());
  if (form == Form::kFunctional) {
    output = strides.empty() ? empty(sizes, dtype, options.device().index())
                             : empty_strided(sizes, strides, dtype, options.device().index());
    if (strides.empty() && options.memory_format_opt()) {
      output.unsafeGetTensorImpl()->empty_tensor_restride(*options.memory_format_opt());
    }
    return;
  }
  if (form == Form::kInplace) {
    TORCH_CHECK(output.scalar_type() == dtype, "result type ", dtype, " can't be cast to the desired output type ",
                output.scalar_type());
    TORCH_CHECK(output.sizes() == sizes, "output with shape ", output.sizes(), " doesn't match the broadcast shape ",
                sizes);
    return;
  }
  TORCH_CHECK(output.scalar_type() == dtype, "Expected out tensor to have dtype ", options.dtype(), ", but got ",
              output.dtype(), " instead");
  TORCH_CHECK(output.device() == options.device(), "Expected out tensor to have device ", options.device(),
              ", but got ", output.device(), " instead");
  if (at::native::resize_output(output, sizes)) {
    if (!strides.empty()) {
      output.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    } else if (options.memory_format_opt()) {
      output.unsafeGetTensorImpl()->empty_tensor_restride(*options.memory_format_opt());
    }
  }
}

at::TensorIterator force_bool_iterator(const at::Tensor& output, const at::Tensor& self) {
  auto config = at::TensorIteratorConfig();
  config.check_all_same_dtype(false).add_output(output).add_const_input(self);
  if (!output.defined()) config.declare_static_dtype(at::kBool);
  return config.build();
}

at::TensorIterator where_iterator(const at::Tensor& output, const at::Tensor& condition, const at::Tensor& self,
                                  const at::Tensor& other) {
  TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ", condition.scalar_type());
  const at::ScalarType result = at::native::result_type(self, other);
  TORCH_CHECK(!output.defined() || output.scalar_type() == result, "Expected out type to be ", result, " but got ",
              output.scalar_type());
  auto config = at::TensorIteratorConfig();
  config.check_all_same_dtype(false).check_all_same_device(true).allow_cpu_scalars(true);
  config.declare_static_dtype_and_device(result, condition.is_privateuseone() ? condition.device()
                                                 : self.is_privateuseone()    ? self.device()
                                                                              : other.device());
  config.add_output(output).add_const_input(condition).add_const_input(self).add_const_input(other);
  return config.build();
}

bool representable(const at::Scalar& value, at::ScalarType dtype) {
  if (value.isComplex()) return at::isComplexType(dtype);
  if (dtype == at::kBool || at::isComplexType(dtype)) return true;
  switch (dtype) {
#define HP_CASE(type, name)                                                        \
  case at::ScalarType::name:                                                       \
    return value.isIntegral(true) ? !c10::overflows<type, int64_t>(value.toLong()) \
                                  : !c10::overflows<type, double>(value.toDouble());
    AT_FORALL_SCALAR_TYPES_AND2(Half, BFloat16, HP_CASE)
#undef HP_CASE
    default:
      return false;
  }
}

void check_same_device(const Overload& overload, std::initializer_list<const at::Tensor*> tensors) {
  const at::Tensor* first = nullptr;
  for (const at::Tensor* tensor : tensors) {
    if (!tensor->defined()) continue;
    if (first == nullptr) first = tensor;
    TORCH_CHECK(tensor->device() == first->device(),
                "Expected all tensors to be on the same device, but found at least two devices, ", first->device(),
                " and ", tensor->device(), "! (while running ", overload.op.name, ")");
  }
}

}  // namespace hp::torch_adapter
