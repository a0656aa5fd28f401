// The vendor's own kernels, through cuBLASLt and cuDNN where these are installed.
#pragma once

#include <atomic>
#include <cstdint>

#include "hardpoint/plugin.h"

namespace nv {

// Whether products of float32 may round their factors to TF32.
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
