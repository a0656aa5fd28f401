// The exported kernels, implemented with cuBLASLt and cuDNN where they are installed.
#pragma once

#include <atomic>
#include <cstdint>

#include "hardpoint/plugin.h"

namespace nv {

// Whether float32 matmuls and convolutions may round their inputs to TF32.
extern std::atomic<bool> allow_tf32;

}  // namespace nv

extern "C" {
HP_EXPORT int __tvm_ffi_matmul(void* self, const void* args, int32_t num_args, void* result);
HP_EXPORT int __tvm_ffi_addmm(void* self, const void* args, int32_t num_args, void* result);
HP_EXPORT int __tvm_ffi_attention(void* self, const void* args, int32_t num_args, void* result);
HP_EXPORT int __tvm_ffi_attention_backward(void* self, const void* args, int32_t num_args, void* result);
HP_EXPORT int __tvm_ffi_convolution(void* self, const void* args, int32_t num_args, void* result);
HP_EXPORT int __tvm_ffi_convolution_backward_input(void* self, const void* args, int32_t num_args, void* result);
HP_EXPORT int __tvm_ffi_convolution_backward_weight(void* self, const void* args, int32_t num_args, void* result);
}
