// Calls of vendors' kernels for pointwise operators.
#pragma once

#include "wrappers.h"

namespace hp::torch_adapter {

// An input: a tensor, or a number in place of one. `as_is`: it does not take part in the computation's dtype.
struct Operand {
  Operand(const at::Tensor& tensor, bool as_is = false) : tensor(&tensor), as_is(as_is) {}
  Operand(const at::Scalar& number) : number(&number) {}
  const at::Tensor* tensor = nullptr;
  const at::Scalar* number = nullptr;
  bool as_is = false;
};

// Operands are brought to the computation's dtype and the output's shape; a CPU scalar is passed as a number.
template <size_t kInputs, class... Attributes>
bool vendor_pointwise(const Overload& overload, const hp::Kernel& kernel, const at::Tensor& output,
                      at::ScalarType compute, const std::array<Operand, kInputs>& inputs,
                      const Attributes&... attributes) {
  if (output.numel() == 0) return true;
  const bool any_strides = (kernel.flags & HP_KERNEL_STRIDED) != 0;
  const Destination destination(output, compute, any_strides);
  Call call(overload.op, kernel, device_holding(output));
  call.add(destination.tensor());
  std::array<at::Tensor, kInputs> kept;
  for (size_t i = 0; i < kInputs; ++i) {
    const at::Tensor* operand = inputs[i].tensor;
    if (operand == nullptr) {
      call.add(*inputs[i].number);
      continue;
    }
    if (!on_device(*operand)) {
      call.add(operand->item());
      continue;
    }
    if (!inputs[i].as_is && operand->scalar_type() != compute) operand = &(kept[i] = operand->to(compute));
    if (operand->sizes() != output.sizes()) operand = &(kept[i] = operand->expand(output.sizes()));
    if (!any_strides && !operand->is_contiguous()) operand = &(kept[i] = operand->contiguous());
    call.add(*operand);
  }
  add_attributes(call, attributes...);
  if (!call.run()) return false;
  destination.finish();
  return true;
}

}  // namespace hp::torch_adapter
