/* Kernels: TVM-FFI functions in destination-passing style, found by name. Launch yours on
 * mychip_host->current_stream(device). */
#include <tvm/ffi/c_api.h>

#include "mychip.h"

/* A float32 tensor, or NULL for another dtype or a number. */
static const DLTensor* floats(const TVMFFIAny* arg) {
  const DLTensor* tensor = arg->type_index == kTVMFFIDLTensorPtr ? arg->v_ptr : NULL;
  return tensor && tensor->dtype.code == kDLFloat && tensor->dtype.bits == 32 ? tensor : NULL;
}

/* Declines the call: the next tier takes it. */
static int declined(void) { return mychip_host->raise("NotImplementedError", "mychip supports float32 tensors"); }

static float number(const TVMFFIAny* arg) {
  return arg->type_index == kTVMFFIFloat ? (float)arg->v_float64 : (float)arg->v_int64;
}

/* out = a + alpha * b, where b may be a number. Tensors are contiguous and have one shape. */
HP_EXPORT int __tvm_ffi_add(void* self, const void* args, int32_t num_args, void* result) {
  const TVMFFIAny* arg = args;
  const DLTensor *out = floats(&arg[0]), *a = floats(&arg[1]), *b = floats(&arg[2]);
  const int adds_number = arg[2].type_index == kTVMFFIFloat || arg[2].type_index == kTVMFFIInt;
  (void)self, (void)num_args, (void)result;
  if (!out || !a || (!b && !adds_number)) return declined();
  const float scale = number(&arg[3]), addend = adds_number ? number(&arg[2]) : 0;
  float *to = out->data, *x = a->data, *y = b ? b->data : NULL;
  int64_t count = 1;
  for (int i = 0; i < out->ndim; ++i) count *= out->shape[i];
  for (int64_t i = 0; i < count; ++i) to[i] = x[i] + scale * (y ? y[i] : addend);
  return 0;
}

/* out = a @ b, for matrices or batches of matrices. */
HP_EXPORT int __tvm_ffi_matmul(void* self, const void* args, int32_t num_args, void* result) {
  const TVMFFIAny* arg = args;
  const DLTensor *out = floats(&arg[0]), *a = floats(&arg[1]), *b = floats(&arg[2]);
  (void)self, (void)num_args, (void)result;
  if (!out || !a || !b) return declined();
  const int64_t *shape = out->shape + out->ndim - 2, m = shape[0], n = shape[1], k = a->shape[a->ndim - 1];
  const int64_t batches = out->ndim == 3 ? out->shape[0] : 1;
  for (int64_t batch = 0; batch < batches; ++batch) {
    float* to = (float*)out->data + batch * m * n;
    const float *x = (const float*)a->data + batch * m * k, *y = (const float*)b->data + batch * k * n;
    for (int64_t i = 0; i < m * n; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < k; ++j) sum += x[i / n * k + j] * y[j * n + i % n];
      to[i] = sum;
    }
  }
  return 0;
}
