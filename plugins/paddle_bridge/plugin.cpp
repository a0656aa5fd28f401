// The bridge as a plug-in of Hardpoint's: it is told by the environment which Paddle plug-in stands behind it.
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
  // dlopen looks for a bare file name in the system's folders only.
  char* absolute = realpath(wanted, nullptr);
  const std::string path = absolute != nullptr ? absolute : wanted;
  std::free(absolute);
  if (plugin == nullptr) {
    std::string error;
    // Kept until the process ends: Hardpoint may call at any time, and a driver is not closed under its users.
    plugin = open(path, &error).release();
    if (plugin == nullptr) return host->fail(HP_ERROR, "%s", error.c_str());
  } else if (plugin->path != path) {
    return host->fail(HP_NOT_SUPPORTED, "%s: this process has the Paddle plug-in %s, and there is room for one",
                      path.c_str(), plugin->path.c_str());
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
    return host->fail(HP_ERROR, "the Paddle plug-in threw an exception while it was loaded");
  }
}
