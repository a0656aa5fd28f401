// A loaded and validated plug-in: the host's own, full-size copy of its tables.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hardpoint/plugin.h"

namespace hp {

class Plugin {
 public:
  // Opens a shared library and runs its hp_plugin_init. Throws Error with a message that names the file, what is wrong
  // and what to do; nothing stays registered then.
  static std::shared_ptr<const Plugin> load(const std::string& path);

  // The same for an entry function inside this process (a plug-in written in Python). `origin` is used in messages.
  using InitFunction = HpStatus (*)(const HpHost*, const HpPlugin**);
  static std::shared_ptr<const Plugin> adopt(InitFunction init, const std::string& origin);

  // Fields that the plug-in does not provide are null here, whatever header it was compiled with.
  HpPlugin table{};
  HpStreams streams{};
  HpEvents events{};
  HpInfo info{};
  HpPinned pinned{};
  HpPeer peer{};
  HpInterprocess interprocess{};
  HpCompiler compiler{};
  HpCollectives collectives{};

  std::string name;
  std::string origin;
  int device_count = 0;
  uint32_t abi_minor = 0;

  bool has_streams() const { return streams.create != nullptr; }
  bool has_events() const { return events.create != nullptr; }

  // Names of the optional tables that are present, for reports.
  std::vector<std::string> extensions() const;

  // The kernel for a standard operator: listed in the table, else exported as __tvm_ffi_<name>; null if neither.
  struct Kernel {
    HpKernelFunction function = nullptr;
    uint64_t flags = 0;
  };
  Kernel find_kernel(const std::string& name) const;

 private:
  Plugin() = default;
  void adopt_table(const HpPlugin* table);
  void* library_ = nullptr;
};

const HpHost* host();

}  // namespace hp
