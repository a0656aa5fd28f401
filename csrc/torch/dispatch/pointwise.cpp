#include "dispatch/pointwise.h"

namespace hp::torch_adapter {
namespace {

constexpr int kMaxOperands = PointwiseLaunch::kMaxOperands;

// For each kernel operand, its tensor's position in the iterator. Some of torch's shape rules add an input twice, or in
// another order than the operator's table.
std::array<uint8_t, kMaxOperands> match_operands(const at::TensorIteratorBase& iterator,
                                                 std::initializer_list<const at::Tensor*> inputs) {
  const int outputs = iterator.noutputs(), operands = std::min(iterator.ntensors(), kMaxOperands);
  std::array<uint8_t, kMaxOperands> order;
  for (int i = 0; i < outputs; ++i) order[i] = static_cast<uint8_t>(i);
  uint32_t taken = 0;
  int position = outputs;
  std::array<int, kMaxOperands> unmatched;
  int num_unmatched = 0;
  for (const at::Tensor* tensor : inputs) {
    int found = -1;
    for (int i = outputs; tensor != nullptr && i < operands && found < 0; ++i) {
      if ((taken >> i & 1) == 0 && iterator.tensor_base(i).unsafeGetTensorImpl() == tensor->unsafeGetTensorImpl()) {
        found = i;
      }
    }
    if (found >= 0) {
      taken |= 1U << found;
      order[position] = static_cast<uint8_t>(found);
    } else {
      unmatched[num_unmatched++] = position;
    }
    ++position;
  }
  // Tensors that the iterator created, such as one for a scalar, fill the remaining positions.
  int next = outputs;
  for (int k = 0; k < num_unmatched; ++k) {
    while (next < operands && (taken >> next & 1) != 0) ++next;
    order[unmatched[k]] = static_cast<uint8_t>(next++);
  }
  return order;
}

// The number in a CPU tensor with one element. item() goes through the dispatcher; torch stores a Python number in one
// of these dtypes.
at::Scalar number_in(const at::Tensor& tensor) {
  if (tensor.is_cpu() && !tensor.is_neg()) {
    if (tensor.scalar_type() == at::kDouble) return *tensor.const_data_ptr<double>();
    if (tensor.scalar_type() == at::kLong) return *tensor.const_data_ptr<int64_t>();
  }
  return tensor.item();
}

}  // namespace

bool launch_iterator(Operator& op, PortableKernelTable& kernels, at::TensorIteratorBase& iterator, DType compute,
                     Variant variant, std::initializer_list<const at::Tensor*> inputs,
                     std::initializer_list<PointwiseNumber> attributes) {
  PointwiseLaunch launch;
  launch.compute = compute;
  launch.variant = variant;
  launch.num_outputs = iterator.noutputs();
  launch.num_operands = launch.num_outputs + static_cast<int>(inputs.size());
  launch.num_attributes = static_cast<int>(attributes.size());
  if (launch.num_operands > std::min(iterator.ntensors(), kMaxOperands) || iterator.ndim() > kMaxKernelRank) {
    return false;
  }
  const auto order = match_operands(iterator, inputs);
  const bool scalar = iterator.ndim() == 0;
  launch.dimensions = scalar ? 1 : iterator.ndim();
  launch.shape.elements = iterator.numel();
  auto& geometry = launch.shape.geometry;
  for (int d = 0; d < launch.dimensions; ++d) geometry.size[d] = scalar ? 1 : iterator.shape()[d];
  for (int k = 0; k < launch.num_operands; ++k) {
    const int i = order[k];
    PointwiseLaunch::Operand& operand = launch.operands[k];
    operand.dtype = to_core(iterator.dtype(i));
    if (operand.dtype == DType::kNone) return false;
    operand.is_number = i >= launch.num_outputs && iterator.is_cpu_scalar(i);
    if (operand.is_number) {
      operand.number = to_number(number_in(iterator.tensor(i)), compute);
      continue;
    }
    if (iterator.device(i).type() != kDeviceType) return false;
    operand.data = iterator.data_ptr(i);
    for (int d = 0; d < launch.dimensions; ++d) {
      geometry.stride[k][d] = scalar ? iterator.element_size(i) : iterator.strides(i)[d];
    }
  }
  std::copy(attributes.begin(), attributes.end(), launch.attributes.begin());
  return launch_pointwise(op, kernels, device_at(iterator.device(0).index()), launch);
}

VendorArgument operand(const at::Scalar& number) {
  if (number.isBoolean()) return attribute(number.toBool());
  if (number.isIntegral(false)) return attribute(number.toLong());
  return number.isComplex() ? complex_attribute() : attribute(number.toDouble());
}

VendorArgument operand(const at::Tensor& tensor, bool keeps_dtype) {
  if (!on_device(tensor)) return operand(number_in(tensor));
  VendorArgument argument = input(storage_view(tensor));
  argument.keeps_dtype = keeps_dtype;
  return argument;
}

}  // namespace hp::torch_adapter
