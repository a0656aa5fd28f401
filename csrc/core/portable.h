// Portable kernels: written by hardpoint.kernels in the device's dialect, compiled by the plug-in, kept for ever.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "operator.h"
#include "runtime.h"

namespace hp {

// What a kernel is specialised for: dtypes, layout, variant. Packed by the caller, unpacked by nobody: `describe` gives
// the generator its own words.
struct SpecialisationKey {
  uint64_t types = 0, layout = 0;
  bool operator==(const SpecialisationKey& other) const { return types == other.types && layout == other.layout; }
};

// One compiled kernel on one device. `function` is null for what the generator or the compiler does not offer: the next
// tier takes such calls without asking again.
struct PortableKernel {
  HpFunction function = nullptr;
  int64_t elements_per_group = 1;
};

// The specialisations of one operator. Looking one up takes no lock: entries are only ever added.
class PortableKernels {
 public:
  explicit PortableKernels(std::string operator_name) : name_(std::move(operator_name)) {}
  const PortableKernel& get(Device& device, const SpecialisationKey& key, std::string (*describe)(const void*),
                            const void* description) {
    for (const Entry* e = entries_.load(std::memory_order_acquire); e != nullptr; e = e->next) {
      if (e->device == &device && e->key == key) return e->kernel;
    }
    return make(device, key, describe(description));
  }

 private:
  struct Entry {
    const Device* device;
    SpecialisationKey key;
    PortableKernel kernel;
    const Entry* next;  // set before the entry is seen by others
  };
  const PortableKernel& make(Device& device, const SpecialisationKey& key, const std::string& description);

  const std::string name_;
  std::atomic<const Entry*> entries_{nullptr};
};

// The generator, registered by hardpoint.kernels: (device, operator, description) -> compiled code. An empty binary
// means that there is no such kernel.
struct Specialised {
  std::string binary, kernel;
  int64_t elements_per_group = 1;
};
using Specialiser = std::function<Specialised(Device&, const std::string&, const std::string&)>;
void set_specialiser(Specialiser specialiser);

// Compiles with the plug-in, without keeping anything. Throws Error; HP_NOT_SUPPORTED where there is no compiler.
std::string compile_portable(Device& device, const std::string& source, const std::string& options);

// Loads what compile_portable gave, for ever, and finds one of its kernels.
HpFunction load_function(Device& device, const std::string& binary, const std::string& name);

// Launches `groups` groups of the size that suits the device.
void launch_groups(Operator& op, const PortableKernel& kernel, Stream& stream, int64_t groups, const HpLaunchArg* args,
                   uint32_t num_args);

// Launches over `elements`, in one dimension.
void launch_portable(Operator& op, const PortableKernel& kernel, Stream& stream, int64_t elements,
                     const HpLaunchArg* args, uint32_t num_args);

}  // namespace hp
