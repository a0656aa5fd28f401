// Binds a framework operator to the standard operator that serves it. Functions of csrc/ops take a binding and return
// false if neither a vendor nor a portable kernel serves the call: the caller then tries the next tier.
#pragma once

#include "core/dispatch/operator.h"
#include "core/runtime/runtime.h"

namespace hp {

// Whether portable kernels may serve an operator: the plug-in has a compiler and no rule denies them.
class PortableAllowed {
 public:
  PortableAllowed(const Operator& op, bool has_compiler) : op_(op), has_compiler_(has_compiler) {}
  operator bool() const { return has_compiler_ && op_.allows(Tier::kPortable); }

 private:
  const Operator& op_;
  const bool has_compiler_;
};

// A framework operator and its standard operator. A static of the wrapper, so it lives until the process ends.
class OpBinding {
 public:
  OpBinding(Runtime& runtime, const std::string& framework_name, const std::string& standard_name)
      : op(Operator::intern(framework_name)),
        runtime(runtime),
        portable_allowed(op, runtime.plugin->compiler.compile != nullptr),
        slot_(KernelRegistry::slot(runtime, standard_name)) {}

  Operator& op;
  Runtime& runtime;
  const PortableAllowed portable_allowed;
  const Kernel* kernel() const { return op.allows(Tier::kVendor) ? slot_.get() : nullptr; }
  // Whether a vendor or portable kernel may serve a call.
  bool can_serve() const { return portable_allowed || kernel() != nullptr; }

 private:
  KernelSlot& slot_;
};

// Counts a call served by portable kernels and notifies observers. Call done() once everything is launched.
class PortableScope {
 public:
  explicit PortableScope(const OpBinding& binding) : binding_(binding) {
    if (__builtin_expect(observed(), 0)) notify({binding.op, Tier::kPortable, true, nullptr});
  }
  bool done() const {
    binding_.op.count(Tier::kPortable);
    if (__builtin_expect(observed(), 0)) notify({binding_.op, Tier::kPortable, false, nullptr});
    return true;
  }

 private:
  const OpBinding& binding_;
};

}  // namespace hp
