// One Paddle plug-in, opened: what the files of the bridge share.
//
// A process has one, since neither table carries a pointer to user data, and torch has room for one device.
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
  paddle::Stream default_stream = nullptr;  // stands for Hardpoint's NULL, which Paddle's plug-ins do not know
  size_t chunk = 1;                         // sizes are multiples of this
  size_t padding = 0;                       // and have this much more
};

struct PaddlePlugin {
  std::string path;
  std::string name;         // as a device of Hardpoint: lower case
  std::string device_type;  // as Paddle calls it
  std::string sub_device_type;
  const paddle::Interface* table = nullptr;  // lives until the process ends
  std::vector<std::unique_ptr<DeviceState>> devices;

  bool has_streams() const {
    return table->create_stream != nullptr && table->destroy_stream != nullptr &&
           (table->synchronize_stream != nullptr || table->synchronize_device != nullptr);
  }
};

extern const HpHost* host;
extern PaddlePlugin* plugin;

// open.cpp: opens the library and has it fill in its table. On failure the message is in `error`.
std::unique_ptr<PaddlePlugin> open(const std::string& path, std::string* error);

// device.cpp: starts the device when it is used for the first time and makes it the thread's current one, as Paddle
// does before it calls a plug-in.
HpStatus enter(int device);

// HP_OK, or a failure that names the callback.
HpStatus result(paddle::Status status, const char* callback);

// Calls `body` with the plug-in's own idea of the device. A plug-in in C++ may throw: not beyond this.
template <class Body>
HpStatus call(int device, const char* callback, const Body& body) {
  try {
    if (const HpStatus status = enter(device); status != HP_OK) return status;
    return result(body(&plugin->devices[device]->number), callback);
  } catch (const std::exception& error) {
    return host->fail(HP_ERROR, "%s: %s threw: %s", plugin->path.c_str(), callback, error.what());
  } catch (...) {
    return host->fail(HP_ERROR, "%s: %s threw an exception", plugin->path.c_str(), callback);
  }
}

// stream.cpp: the plug-in's handle of a stream; its default stream for NULL, once the device was entered.
paddle::Stream raw(int device, HpStream stream);
// Waits for one stream, by whatever the plug-in has for it.
paddle::Status wait(paddle::Device device, paddle::Stream stream);

// The tables, filled in with what the plug-in can do; NULL where it cannot.
const HpStreams* streams_table();
const HpEvents* events_table();
const HpInfo* info_table();
const HpPinned* pinned_table();
const HpPeer* peer_table();

// memory.cpp and copy.cpp: the required part.
HpStatus allocate(int device, size_t bytes, void** ptr);
HpStatus release(int device, void* ptr);
HpStatus copy_to_device(int device, void* dst, const void* src, size_t bytes, HpStream stream);
HpStatus copy_to_host(int device, void* dst, const void* src, size_t bytes, HpStream stream);
HpStatus copy_on_device(int device, void* dst, const void* src, size_t bytes, HpStream stream);

}  // namespace bridge
