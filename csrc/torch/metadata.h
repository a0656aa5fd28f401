// Flags of the backend's own on a tensor (c10::BackendMeta), which torch.save and torch.load carry along.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>

namespace hp::torch_adapter {

using Metadata = std::unordered_map<std::string, bool>;

// Registers the serialisation functions. torch takes one registration a process, so it is made only by who uses it.
void enable_metadata();
void set_metadata(const at::Tensor& tensor, Metadata values);
Metadata get_metadata(const at::Tensor& tensor);

}  // namespace hp::torch_adapter
