// State of the opened Paddle plug-in, shared by the files of the bridge.
//
// There is one per process: neither table has a user data pointer, and torch supports one device.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hardpoint/plugin.h"
#include "paddle_table.h"

namespace bridge {

struct DeviceState {
  paddle::DeviceNumber number{};
  std::once_flag started;
  bool ready = false;
  paddle::Stream default_stream = nullptr;  // for Hardpoint's NULL stream, which Paddle does not have
  size_t chunk = 1;                         // allocation sizes are multiples of this
  size_t padding = 0;                       // extra bytes per allocation
};

struct PaddlePlugin {
  std::string path;
  std::string name;         // Hardpoint's device name, lower case
  std::string device_type;  // Paddle's device name
  std::string sub_device_type;
  const paddle::Interface* table = nullptr;  // valid until the process ends
  std::vector<std::unique_ptr<DeviceState>> devices;

  bool has_streams() const {
    return table->create_stream != nullptr && table->destroy_stream != nullptr &&
           (table->synchronize_stream != nullptr || table->synchronize_device != nullptr);
  }
};

extern const HpHost* host;
extern PaddlePlugin* plugin;

// open.cpp: opens the library and lets it fill in its table. Returns null and sets `error` on failure.
std::unique_ptr<PaddlePlugin> open(const std::string& path, std::string* error);

// device.cpp: starts the device on first use and makes it current on this thread, as Paddle does before every callback.
HpStatus make_current(int device);

// HP_OK, or host->fail with the name of the callback.
HpStatus result(paddle::Status status, const char* callback);

// Calls `body` with Paddle's device handle. Catches exceptions: a plug-in written in C++ may throw.
template <class Body>
HpStatus call(int device, const char* callback, const Body& body) {
  try {
    if (const HpStatus status = make_current(device); status != HP_OK) return status;
    return result(body(&plugin->devices[device]->number), callback);
  } catch (const std::exception& error) {
    return host->fail(HP_ERROR, "%s: %s threw: %s", plugin->path.c_str(), callback, error.what());
  } catch (...) {
    return host->fail(HP_ERROR, "%s: %s threw an exception", plugin->path.c_str(), callback);
  }
}

// stream.cpp: Paddle's handle of a stream. NULL is the default stream, valid once the device has started.
paddle::Stream native_stream(int device, HpStream stream);
// Waits for one stream, with the callbacks the plug-in provides.
paddle::Status synchronize(paddle::Device device, paddle::Stream stream);

// The tables, limited to what the plug-in supports; null if it does not support any of it.
const HpStreams* streams_table();
const HpEvents* events_table();
const HpInfo* info_table();
const HpPinned* pinned_table();
const HpPeer* peer_table();

// memory.cpp and copy.cpp: the required functions.
HpStatus allocate(int device, size_t bytes, void** ptr);
HpStatus release(int device, void* ptr);
HpStatus copy_to_device(int device, void* dst, const void* src, size_t bytes, HpStream stream);
HpStatus copy_to_host(int device, void* dst, const void* src, size_t bytes, HpStream stream);
HpStatus copy_on_device(int device, void* dst, const void* src, size_t bytes, HpStream stream);

}  // namespace bridge
