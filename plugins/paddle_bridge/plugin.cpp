// The bridge's table and entry point. HARDPOINT_PADDLE_PLUGIN names the Paddle plug-in to open.
#include <cstdlib>

#include "bridge.h"

namespace bridge {

const HpHost* host = nullptr;
PaddlePlugin* plugin = nullptr;

namespace {

HpStatus device_count(int* count) {
  *count = static_cast<int>(plugin->devices.size());
  return HP_OK;
}

const HpPlugin* plugin_table() {
  static HpPlugin table{};
  table.struct_size = sizeof(table);
  table.abi_major = HP_ABI_MAJOR;
  table.abi_minor = HP_ABI_MINOR;
  table.name = plugin->name.c_str();
  table.device_count = device_count;
  table.allocate = allocate;
  table.free = release;
  table.copy_to_device = copy_to_device;
  table.copy_to_host = copy_to_host;
  table.copy_on_device = copy_on_device;
  table.streams = streams_table();
  table.events = events_table();
  table.info = info_table();
  table.pinned = pinned_table();
  table.peer = peer_table();
  return &table;
}

HpStatus init(const HpHost* given, const HpPlugin** result) {
  host = given;
  const char* wanted = std::getenv("HARDPOINT_PADDLE_PLUGIN");
  if (wanted == nullptr || wanted[0] == '\0') {
    return host->fail(HP_INVALID_ARGUMENT, "set HARDPOINT_PADDLE_PLUGIN to the path of a Paddle plug-in's library");
  }
  // dlopen would search a bare file name in the system's folders only.
  char* absolute = realpath(wanted, nullptr);
  const std::string path = absolute != nullptr ? absolute : wanted;
  std::free(absolute);
  if (plugin == nullptr) {
    std::string error;
    // Never closed: Hardpoint may call it until the process ends.
    plugin = open(path, &error).release();
    if (plugin == nullptr) return host->fail(HP_ERROR, "%s", error.c_str());
  } else if (plugin->path != path) {
    return host->fail(HP_NOT_SUPPORTED,
                      "%s: this process already uses the Paddle plug-in %s, and only one is supported", path.c_str(),
                      plugin->path.c_str());
  }
  *result = plugin_table();
  return HP_OK;
}

}  // namespace
}  // namespace bridge

extern "C" HP_EXPORT HpStatus hp_plugin_init(const HpHost* host, const HpPlugin** plugin) {
  try {
    return bridge::init(host, plugin);
  } catch (const std::exception& error) {
    return host->fail(HP_ERROR, "%s", error.what());
  } catch (...) {
    return host->fail(HP_ERROR, "the Paddle plug-in threw an exception while loading");
  }
}
