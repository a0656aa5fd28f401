/* The smallest complete plug-in: a device `hello` in host memory with one kernel.
 * docs/reference/abi.md explains it. */
#include <hardpoint/plugin.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/c_api.h>

static const HpHost* host;

static HpStatus device_count(int* count) {
  *count = 1;
  return HP_OK;
}

static HpStatus allocate(int device, size_t bytes, void** ptr) {
  *ptr = aligned_alloc(HP_ALIGNMENT, (bytes + HP_ALIGNMENT - 1) / HP_ALIGNMENT * HP_ALIGNMENT);
  return *ptr ? HP_OK : host->fail(HP_OUT_OF_MEMORY, "hello:%d cannot allocate %zu bytes", device, bytes);
}

static HpStatus release(int device, void* ptr) {
  (void)device;
  free(ptr);
  return HP_OK;
}

/* Both sides are host memory, so one synchronous function serves all three directions. */
static HpStatus copy(int device, void* dst, const void* src, size_t bytes, HpStream stream) {
  (void)device, (void)stream;
  memcpy(dst, src, bytes);
  return HP_OK;
}

/* Data of a float32 tensor; NULL for another dtype or a scalar. */
static float* elements(const TVMFFIAny* arg) {
  if (arg->type_index != kTVMFFIDLTensorPtr) return NULL;
  const DLTensor* tensor = arg->v_ptr;
  return tensor->dtype.code == kDLFloat && tensor->dtype.bits == 32 ? tensor->data : NULL;
}

/* out = a + alpha * b. Tensors are contiguous and have one shape. */
HP_EXPORT int __tvm_ffi_add(void* self, const void* args, int32_t num_args, void* result) {
  const TVMFFIAny *arg = args, *alpha = &arg[3];
  (void)self, (void)num_args, (void)result;
  float *out = elements(&arg[0]), *a = elements(&arg[1]), *b = elements(&arg[2]);
  if (!out || !a || !b) return host->raise("NotImplementedError", "hello adds float32 tensors");
  const float scale = alpha->type_index == kTVMFFIFloat ? (float)alpha->v_float64 : (float)alpha->v_int64;
  const DLTensor* shape = arg[0].v_ptr;
  int64_t count = 1;
  for (int i = 0; i < shape->ndim; ++i) count *= shape->shape[i];
  for (int64_t i = 0; i < count; ++i) out[i] = a[i] + scale * b[i];
  return 0;
}

static const HpPlugin plugin = {
    HP_PLUGIN_HEADER, .name = "hello",        .device_count = device_count, .allocate = allocate,
    .free = release,  .copy_to_device = copy, .copy_to_host = copy,         .copy_on_device = copy,
};

HP_EXPORT HpStatus hp_plugin_init(const HpHost* given, const HpPlugin** result) {
  host = given;
  *result = &plugin;
  return HP_OK;
}
