// Devices: start, current device, properties.
#include <cstdio>

#include "bridge.h"

namespace bridge {
namespace {

const char* status_name(paddle::Status status) {
  switch (status) {
    case paddle::kFailed:
      return "C_FAILED";
    case paddle::kError:
      return "C_ERROR";
    case paddle::kInternalError:
      return "C_INTERNAL_ERROR";
    default:
      return "an unknown status";
  }
}

void start(DeviceState& state) {
  const paddle::Interface& table = *plugin->table;
  paddle::Device device = &state.number;
  if (table.init_device != nullptr && table.init_device(device) > paddle::kWarning) return;
  if (table.set_device(device) > paddle::kWarning) return;
  if (plugin->has_streams() && table.create_stream(device, &state.default_stream) > paddle::kWarning) return;
  size_t size = 0;
  if (table.device_min_chunk_size != nullptr && table.device_min_chunk_size(device, &size) <= paddle::kWarning) {
    if (size > 0) state.chunk = size;
  }
  size = 0;
  if (table.device_extra_padding_size != nullptr &&
      table.device_extra_padding_size(device, &size) <= paddle::kWarning) {
    state.padding = size;
  }
  state.ready = true;
}

HpStatus memory(int device, uint64_t* free_bytes, uint64_t* total_bytes) {
  size_t total = 0;
  size_t free = 0;
  const HpStatus status = call(device, "device_memory_stats",
                               [&](paddle::Device d) { return plugin->table->device_memory_stats(d, &total, &free); });
  *free_bytes = free;
  *total_bytes = total;
  return status;
}

HpStatus properties(int device, HpProperties* properties) {
  std::snprintf(properties->name, sizeof(properties->name), "%s %s (Paddle plug-in)", plugin->device_type.c_str(),
                plugin->sub_device_type.c_str());
  if (plugin->table->device_memory_stats != nullptr) {
    uint64_t free = 0;
    if (const HpStatus status = memory(device, &free, &properties->total_memory); status != HP_OK) return status;
  }
  if (plugin->table->get_compute_capability != nullptr) {
    size_t capability = 0;
    const HpStatus status = call(device, "get_compute_capability", [&](paddle::Device d) {
      return plugin->table->get_compute_capability(d, &capability);
    });
    if (status != HP_OK) return status;
    // Paddle encodes 8.6 as 86.
    properties->version_major = static_cast<int32_t>(capability / 10);
    properties->version_minor = static_cast<int32_t>(capability % 10);
  }
  return HP_OK;
}

}  // namespace

HpStatus make_current(int device) {
  if (device < 0 || static_cast<size_t>(device) >= plugin->devices.size()) {
    return host->fail(HP_INVALID_ARGUMENT, "%s:%d does not exist", plugin->name.c_str(), device);
  }
  DeviceState& state = *plugin->devices[device];
  std::call_once(state.started, [&] { start(state); });
  if (!state.ready) {
    return host->fail(HP_ERROR, "%s: device %d did not start: init_device, set_device or create_stream failed",
                      plugin->path.c_str(), device);
  }
  // On every call: Paddle may use the same plug-in and set another device on this thread.
  return result(plugin->table->set_device(&state.number), "set_device");
}

HpStatus result(paddle::Status status, const char* callback) {
  if (status == paddle::kSuccess || status == paddle::kWarning) return HP_OK;
  return host->fail(HP_ERROR, "%s: callback %s returned %s", plugin->path.c_str(), callback, status_name(status));
}

const HpInfo* info_table() {
  static HpInfo table{};
  table.struct_size = sizeof(table);
  table.properties = properties;
  table.memory = plugin->table->device_memory_stats != nullptr ? memory : nullptr;
  return &table;
}

}  // namespace bridge
