// Sparse and nested tensors. They are composed of dense tensors, so the CPU tier moves them component by component.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace hp::torch_adapter {

// Whether the tensor is one block of strided memory: neither sparse nor nested.
inline bool is_dense(const at::Tensor& tensor) { return tensor.layout() == c10::kStrided && !tensor.is_nested(); }

// Copies a sparse or nested tensor to another device.
at::Tensor copy_composed(const at::Tensor& tensor, c10::Device device);

// Replaces the contents of a sparse or nested tensor with those of one on another device.
void assign_composed(const at::Tensor& target, const at::Tensor& source);

}  // namespace hp::torch_adapter
