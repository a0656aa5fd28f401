// The device mychip: memory and copies. It uses host memory: replace these calls by those of your driver.
// These functions must not throw.
#include <hardpoint/plugin.h>

#include <cstdlib>
#include <cstring>

namespace {

const HpHost* host;

HpStatus device_count(int* count) {
  *count = 1;
  return HP_OK;
}

HpStatus allocate(int device, size_t bytes, void** ptr) {
  *ptr = std::aligned_alloc(HP_ALIGNMENT, (bytes + HP_ALIGNMENT - 1) / HP_ALIGNMENT * HP_ALIGNMENT);
  return *ptr ? HP_OK : host->fail(HP_OUT_OF_MEMORY, "mychip:%d cannot allocate %zu bytes", device, bytes);
}

HpStatus release(int, void* ptr) {
  std::free(ptr);
  return HP_OK;
}

// One function for all three directions. A driver would queue the copy on the stream and return immediately.
HpStatus copy(int, void* dst, const void* src, size_t bytes, HpStream) {
  std::memcpy(dst, src, bytes);
  return HP_OK;
}

HpStatus properties(int, HpProperties* to) {
  std::strcpy(to->name, "My first chip");
  to->version_major = 1;
  return HP_OK;
}

HpInfo make_info() {
  HpInfo info{};
  info.struct_size = sizeof(info);
  info.properties = properties;
  return info;
}

HpPlugin make_plugin() {
  static const HpInfo info = make_info();
  HpPlugin plugin = hp_plugin_header();
  plugin.name = "mychip";
  plugin.device_count = device_count;
  plugin.allocate = allocate;
  plugin.free = release;
  plugin.copy_to_device = plugin.copy_to_host = plugin.copy_on_device = copy;
  plugin.info = &info;
  return plugin;
}

}  // namespace

HpStatus hp_plugin_init(const HpHost* given, const HpPlugin** result) {
  static const HpPlugin plugin = make_plugin();
  host = given;
  *result = &plugin;
  return HP_OK;
}
