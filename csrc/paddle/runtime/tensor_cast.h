// Paddle's cast of tensors outside of kernels, on mounted devices.
#pragma once

namespace hp::paddle_adapter {

// Replaces the functions with which Paddle makes a complex gradient of a real tensor real, and casts tensors of the
// static API. They know the CPU and CUDA only. Calls after the first do nothing.
void extend_tensor_cast();

}  // namespace hp::paddle_adapter
