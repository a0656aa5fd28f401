/* A plug-in for the tests: right in everything, unless INIT, a line of C that runs in its entry, spoils it. A test can
 * also spoil calls while it runs, by setting `mode`. */
#include <hardpoint/plugin.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>

#ifndef INIT
#define INIT
#endif

enum { NORMAL, NULL_POINTER, ODD_POINTER, FAILING_ALLOCATE, FAILING_COPY, RAISING_KERNEL, DECLINING_KERNEL };
HP_EXPORT int mode = NORMAL;
static const HpHost* host;
static int devices = 1;

extern void driver_function_that_nobody_defines(void);

static HpStatus device_count(int* count) {
  *count = devices;
  return HP_OK;
}

static HpStatus failing_count(int* count) {
  (void)count;
  return host->fail(HP_ERROR, "driver %d.%d is too old", 4, 2);
}

static HpStatus allocate(int device, size_t bytes, void** ptr) {
  if (mode == FAILING_ALLOCATE) return host->fail(HP_DEVICE_LOST, "device %d fell off the bus", device);
  *ptr =
      mode == NULL_POINTER ? NULL : aligned_alloc(HP_ALIGNMENT, (bytes + HP_ALIGNMENT) / HP_ALIGNMENT * HP_ALIGNMENT);
  if (mode == ODD_POINTER) *ptr = (char*)*ptr + 8;
  return HP_OK;
}

static HpStatus release(int device, void* ptr) {
  (void)device;
  free((void*)((uintptr_t)ptr / HP_ALIGNMENT * HP_ALIGNMENT));
  return HP_OK;
}

static HpStatus copy(int device, void* dst, const void* src, size_t bytes, HpStream stream) {
  (void)stream;
  if (mode == FAILING_COPY) return host->fail(HP_ERROR, "parity error on link %d", device);
  memcpy(dst, src, bytes);
  return HP_OK;
}

/* float32 only, and two tensors. */
static int add(void* self, const void* args, int32_t num_args, void* result) {
  const TVMFFIAny* arg = args;
  const DLTensor *out = arg[0].v_ptr, *a = arg[1].v_ptr, *b = arg[2].v_ptr;
  (void)self, (void)num_args, (void)result;
  if (mode == RAISING_KERNEL) return host->raise("ValueError", "tile %d is out of range", 7);
  if (mode == DECLINING_KERNEL || arg[2].type_index != kTVMFFIDLTensorPtr)
    return host->raise("NotImplementedError", "not this one");
  for (int64_t i = 0; i < out->shape[0]; ++i) ((float*)out->data)[i] = ((float*)a->data)[i] + ((float*)b->data)[i];
  return 0;
}

static HpStatus create_stream(int device, int priority, HpStream* stream) {
  (void)device, (void)priority, (void)stream;
  return HP_OK;
}

static HpStatus copy_peer(int dst_device, void* dst, int src_device, const void* src, size_t bytes, HpStream stream) {
  (void)src_device;
  return copy(dst_device, dst, src, bytes, stream);
}

/* Tables that lack something: functions, and the room for one. */
static const HpStreams half_of_streams = {.struct_size = sizeof(HpStreams), .create = create_stream};
static const HpPeer short_peer = {.struct_size = offsetof(HpPeer, copy), .copy = copy_peer};

static const HpKernel kernels[] = {{"add", add, 0}};

static HpPlugin plugin = {
    HP_PLUGIN_HEADER,       .name = "test",       .device_count = device_count, .allocate = allocate, .free = release,
    .copy_to_device = copy, .copy_to_host = copy, .copy_on_device = copy,       .kernels = kernels,   .num_kernels = 1,
};

/* As a plug-in would look that was compiled with a later header: more fields, which mean nothing to us. */
static struct {
  HpPlugin known;
  unsigned char unknown[256];
} newer;

HP_EXPORT HpStatus hp_plugin_init(const HpHost* given, const HpPlugin** result) {
  host = given;
  *result = &plugin;
  INIT;
  return HP_OK;
}
