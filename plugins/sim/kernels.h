// The exported kernels. Each is a TVMFFISafeCallType, spelled without TVM-FFI's types so that it is an HpKernelFunction
// too.
#pragma once

#include <stdint.h>

#include "hardpoint/plugin.h"

extern "C" {
// out = a + alpha * b; a and b are tensors or numbers.
HP_EXPORT int __tvm_ffi_add(void*, const void* arguments, int32_t count, void*);     // out, a, b, alpha
HP_EXPORT int __tvm_ffi_mul(void*, const void* arguments, int32_t count, void*);     // out, a, b
HP_EXPORT int __tvm_ffi_relu(void*, const void* arguments, int32_t count, void*);    // out, x
HP_EXPORT int __tvm_ffi_fill(void*, const void* arguments, int32_t count, void*);    // out, number
HP_EXPORT int __tvm_ffi_copy(void*, const void* arguments, int32_t count, void*);    // out, x
HP_EXPORT int __tvm_ffi_matmul(void*, const void* arguments, int32_t count, void*);  // out, a, b
}
