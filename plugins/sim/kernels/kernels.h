// The exported kernels. The signature is TVMFFISafeCallType, spelled like HpKernelFunction without TVM-FFI's types.
#pragma once

#include <stdint.h>

#include "hardpoint/plugin.h"

extern "C" {
// Arguments are listed behind each kernel. add computes out = a + alpha * b; a and b are tensors or numbers.
HP_EXPORT int __tvm_ffi_add(void*, const void* arguments, int32_t count, void*);     // out, a, b, alpha
HP_EXPORT int __tvm_ffi_mul(void*, const void* arguments, int32_t count, void*);     // out, a, b
HP_EXPORT int __tvm_ffi_relu(void*, const void* arguments, int32_t count, void*);    // out, x
HP_EXPORT int __tvm_ffi_fill(void*, const void* arguments, int32_t count, void*);    // out, number
HP_EXPORT int __tvm_ffi_copy(void*, const void* arguments, int32_t count, void*);    // out, x
HP_EXPORT int __tvm_ffi_matmul(void*, const void* arguments, int32_t count, void*);  // out, a, b
}
