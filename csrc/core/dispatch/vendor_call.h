// Calls vendor kernels with views of any layout.
#pragma once

#include <initializer_list>

#include "core/dispatch/op_binding.h"
#include "core/runtime/philox.h"
#include "core/tensor/view.h"

namespace hp {

// One argument of a vendor kernel. The order is outputs, inputs, attributes.
struct VendorArgument {
  enum Kind { kOutput, kInput, kInteger, kReal, kBoolean, kComplex, kList, kSeed } kind;
  View view;
  int64_t integer = 0;
  double real = 0;
  const int64_t* list = nullptr;
  int64_t length = 0;
  bool keeps_dtype = false;  // pointwise input that is not converted to the compute dtype
};
inline VendorArgument output(const View& view) { return {VendorArgument::kOutput, view}; }
// An undefined view is passed as None.
inline VendorArgument input(const View& view) { return {VendorArgument::kInput, view}; }
inline VendorArgument attribute(int64_t value) { return {VendorArgument::kInteger, {}, value}; }
inline VendorArgument attribute(double value) { return {VendorArgument::kReal, {}, 0, value}; }
inline VendorArgument attribute(bool value) { return {VendorArgument::kBoolean, {}, value}; }
// A generator's seed. offset_of must be the next argument.
inline VendorArgument seed_of(PhiloxState at) { return {VendorArgument::kSeed, {}, static_cast<int64_t>(at.seed)}; }
inline VendorArgument offset_of(PhiloxState at) { return attribute(static_cast<int64_t>(at.offset)); }
// TVM-FFI has no complex scalar: call_vendor returns false for it.
inline VendorArgument complex_attribute() { return {VendorArgument::kComplex, {}}; }
inline VendorArgument attribute(const int64_t* list, int64_t length) {
  return {VendorArgument::kList, {}, 0, 0, list, length};
}

// Calls the vendor kernel. Returns false if there is none or it declined. Views in a layout that the kernel's flags do
// not allow are copied.
bool call_vendor(Operator& op, const Kernel* kernel, Device& device, const VendorArgument* first,
                 const VendorArgument* last);
inline bool call_vendor(const OpBinding& binding, Device& device, const VendorArgument* first,
                        const VendorArgument* last) {
  return call_vendor(binding.op, binding.kernel(), device, first, last);
}
inline bool call_vendor(Operator& op, const Kernel* kernel, Device& device,
                        std::initializer_list<VendorArgument> arguments) {
  return call_vendor(op, kernel, device, arguments.begin(), arguments.end());
}
inline bool call_vendor(const OpBinding& binding, Device& device, std::initializer_list<VendorArgument> arguments) {
  return call_vendor(binding.op, binding.kernel(), device, arguments);
}

}  // namespace hp
