// User-defined flags on device tensors (c10::BackendMeta), which torch.save and torch.load preserve.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>

namespace hp::torch_adapter {

using Metadata = std::unordered_map<std::string, bool>;

// Registers the serialization functions. torch accepts one registration per process, so this happens only on demand.
void enable_metadata();
void set_metadata(const at::Tensor& tensor, Metadata values);
Metadata get_metadata(const at::Tensor& tensor);

}  // namespace hp::torch_adapter
