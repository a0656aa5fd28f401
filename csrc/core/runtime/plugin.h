// A loaded and validated plug-in, with full-size copies of its function tables.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hardpoint/plugin.h"

namespace hp {

class Plugin {
 public:
  // Opens a shared library and calls its hp_plugin_init. On failure throws Error, naming the file and the fix.
  static std::shared_ptr<const Plugin> load(const std::string& path);

  // The same for an entry function in this process (a plug-in written in Python). `origin` names it in messages.
  using InitFunction = HpStatus (*)(const HpHost*, const HpPlugin**);
  static std::shared_ptr<const Plugin> adopt(InitFunction init, const std::string& origin);

  // Slots that the plug-in does not provide are null, whichever header version it was compiled with.
  HpPlugin table{};
  HpStreams streams{};
  HpEvents events{};
  HpInfo info{};
  HpPinned pinned{};
  HpPeer peer{};
  HpInterprocess interprocess{};
  HpCompiler compiler{};
  HpCollectives collectives{};
  HpTracing tracing{};
  HpGraphs graphs{};

  std::string name;
  std::string origin;
  int device_count = 0;
  uint32_t abi_minor = 0;

  bool has_streams() const { return streams.create != nullptr; }
  bool has_events() const { return events.create != nullptr; }

  // Whether `load` of the compiler takes binaries of this kind, such as "cubin".
  bool loads(const std::string& binary_kind) const;
  // A function beside the contract, or null.
  HpPrivateFunction private_function(const std::string& function) const;

  // Names of the optional tables that the plug-in provides, for reports.
  std::vector<std::string> extensions() const;

  // Finds the kernel of a standard operator in the kernel table, else as exported symbol __tvm_ffi_<name>; else null.
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

// The host table passed to hp_plugin_init. Static: plug-ins may keep the pointer.
const HpHost* host();

}  // namespace hp
