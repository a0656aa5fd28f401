// How one framework operator is served: the vendor's kernel, then ours.
#pragma once

#include <initializer_list>

#include "operator.h"
#include "philox.h"
#include "portable.h"
#include "view.h"

namespace hp {

struct Block;

// Whether portable kernels may serve an operator: the device can compile them, and no rule denies it.
class PortableAllowed {
 public:
  PortableAllowed(const Operator& op, bool has_compiler) : op_(op), has_compiler_(has_compiler) {}
  operator bool() const { return has_compiler_ && op_.allows(Tier::kPortable); }

 private:
  const Operator& op_;
  const bool has_compiler_;
};

// A framework's operator and the standard operator behind it. Lives for ever, as a static of its wrapper.
class Service {
 public:
  Service(Runtime& runtime, const std::string& framework_name, const std::string& standard_name)
      : op(Operator::intern(framework_name)),
        runtime(runtime),
        has_compiler(op, runtime.plugin->compiler.compile != nullptr),
        slot_(KernelRegistry::slot(runtime, standard_name)) {}

  Operator& op;
  Runtime& runtime;
  const PortableAllowed has_compiler;
  const Kernel* kernel() const { return op.allows(Tier::kVendor) ? slot_.get() : nullptr; }
  // Whether anything but the last tiers can take a call.
  bool able() const { return has_compiler || kernel() != nullptr; }

 private:
  KernelSlot& slot_;
};

// One argument of a vendor's kernel: outputs, then inputs, then attributes.
struct VendorArgument {
  enum Kind { kOutput, kInput, kInteger, kReal, kBoolean, kList, kSeed } kind;
  View view;
  int64_t integer = 0;
  double real = 0;
  const int64_t* list = nullptr;
  int64_t length = 0;
};
inline VendorArgument output(const View& view) { return {VendorArgument::kOutput, view}; }
// An undefined view is passed as None.
inline VendorArgument input(const View& view) { return {VendorArgument::kInput, view}; }
inline VendorArgument attribute(int64_t value) { return {VendorArgument::kInteger, {}, value}; }
inline VendorArgument attribute(double value) { return {VendorArgument::kReal, {}, 0, value}; }
inline VendorArgument attribute(bool value) { return {VendorArgument::kBoolean, {}, value}; }
// Where random numbers begin; the offset is the next argument.
inline VendorArgument seed_of(PhiloxState at) { return {VendorArgument::kSeed, {}, static_cast<int64_t>(at.seed)}; }
inline VendorArgument offset_of(PhiloxState at) { return attribute(static_cast<int64_t>(at.offset)); }
inline VendorArgument attribute(const int64_t* list, int64_t length) {
  return {VendorArgument::kList, {}, 0, 0, list, length};
}

// Calls the vendor's kernel, if there is one; false when there is none or it declined. Views that it cannot take are
// made contiguous for it.
bool call_vendor(Operator& op, const Kernel* kernel, Device& device, const VendorArgument* first,
                 const VendorArgument* last);
inline bool call_vendor(const Service& service, Device& device, const VendorArgument* first,
                        const VendorArgument* last) {
  return call_vendor(service.op, service.kernel(), device, first, last);
}
inline bool call_vendor(Operator& op, const Kernel* kernel, Device& device,
                        std::initializer_list<VendorArgument> arguments) {
  return call_vendor(op, kernel, device, arguments.begin(), arguments.end());
}
inline bool call_vendor(const Service& service, Device& device, std::initializer_list<VendorArgument> arguments) {
  return call_vendor(service.op, service.kernel(), device, arguments);
}

// Counts a call served by portable kernels, and tells observers. `return call.done();` once everything is launched.
class PortableScope {
 public:
  explicit PortableScope(const Service& service) : service_(service) {
    if (__builtin_expect(observed(), 0)) notify({service.op, Tier::kPortable, true, nullptr});
  }
  bool done() {
    service_.op.count(Tier::kPortable);
    if (__builtin_expect(observed(), 0)) notify({service_.op, Tier::kPortable, false, nullptr});
    return true;
  }

 private:
  const Service& service_;
};

// Device memory for the time of a call, ordered on the current stream.
class Scratch {
 public:
  Scratch(Device& device, int64_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  void* get() const { return data_; }

 private:
  Block* block_ = nullptr;
  void* data_ = nullptr;
};

// An integer that kernels wrote, where an output's size depends on the data: waits for the current stream.
int64_t read_integer(Device& device, const int64_t* address);

}  // namespace hp
