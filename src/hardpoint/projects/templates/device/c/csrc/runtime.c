/* The device mychip: memory and copies. It uses host memory: replace these calls by those of your driver. */
#include "mychip.h"

#include <stdlib.h>
#include <string.h>

const HpHost* mychip_host;

static HpStatus device_count(int* count) {
  *count = 1;
  return HP_OK;
}

static HpStatus allocate(int device, size_t bytes, void** ptr) {
  *ptr = aligned_alloc(HP_ALIGNMENT, (bytes + HP_ALIGNMENT - 1) / HP_ALIGNMENT * HP_ALIGNMENT);
  return *ptr ? HP_OK : mychip_host->fail(HP_OUT_OF_MEMORY, "mychip:%d cannot allocate %zu bytes", device, bytes);
}

static HpStatus release(int device, void* ptr) {
  (void)device;
  free(ptr);
  return HP_OK;
}

/* One function for all three directions. A driver would queue the copy on the stream and return immediately. */
static HpStatus copy(int device, void* dst, const void* src, size_t bytes, HpStream stream) {
  (void)device, (void)stream;
  memcpy(dst, src, bytes);
  return HP_OK;
}

static HpStatus properties(int device, HpProperties* to) {
  (void)device;
  strcpy(to->name, "My first chip");
  to->version_major = 1;
  return HP_OK;
}

static const HpInfo info = {.struct_size = sizeof(HpInfo), .properties = properties};

static const HpPlugin plugin = {
    HP_PLUGIN_HEADER,       .name = "mychip",     .device_count = device_count, .allocate = allocate, .free = release,
    .copy_to_device = copy, .copy_to_host = copy, .copy_on_device = copy,       .info = &info,
};

HpStatus hp_plugin_init(const HpHost* host, const HpPlugin** result) {
  mychip_host = host;
  *result = &plugin;
  return HP_OK;
}
