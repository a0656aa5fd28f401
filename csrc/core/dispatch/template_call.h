// Launches the handwritten portable kernels in src/hardpoint/kernels/sources/*.c.
#pragma once

#include <array>
#include <cstring>
#include <initializer_list>

#include "core/dispatch/op_binding.h"
#include "core/dispatch/portable_kernel.h"
#include "core/runtime/philox.h"
#include "core/tensor/view.h"

namespace hp {

// A kernel named "file:kernel", such as "softmax:forward", and the names of its template parameters: at most 8 types
// and 8 integers from 0 to 255. Declare it as a static of the function that launches it.
class KernelTemplate : public PortableKernelTable {
 public:
  KernelTemplate(const char* name, std::initializer_list<const char*> types,
                 std::initializer_list<const char*> integers = {})
      : PortableKernelTable(name) {
    for (const char* type : types) types_[num_types_++] = type;
    for (const char* integer : integers) integers_[num_integers_++] = integer;
  }

 private:
  friend class TemplateCall;
  std::array<const char*, 8> types_{}, integers_{};
  int num_types_ = 0, num_integers_ = 0;
};

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Whether a kernel may take more than 1 KiB of arguments. OpenCL guarantees no more; the other dialects take up to
// TemplateCall::kMaxBytes.
bool takes_many_arguments(const Device& device);

// One launch on the current stream. The constructor looks up the kernel; then add the arguments in order and launch.
// launch and run return false if the device has no such kernel: the call must go to the next tier.
class TemplateCall {
 public:
  TemplateCall(KernelTemplate& kernels, Device& device, std::initializer_list<DType> types,
               std::initializer_list<int> integers = {});

  // For a check before temporaries are allocated or other kernels launched.
  bool available() const { return kernel_->function != nullptr; }

  TemplateCall& arg(const View& view) { return pointer(view.data); }
  TemplateCall& pointer(const void* address) { return pack(&address, sizeof(address), true); }
  TemplateCall& integer(int64_t value) { return pack(&value, sizeof(value), false); }
  TemplateCall& real(double value) { return pack(&value, sizeof(value), false); }
  // A number in the dtype's accumulation type, which kernels call `T_a`.
  TemplateCall& real(double value, DType dtype) {
    return accumulator(dtype) == DType::kF64 ? real(value) : this->value(static_cast<float>(value));
  }
  // Two arguments: the seed, and the offset of the first random block.
  TemplateCall& state(PhiloxState state);
  // Two arguments: the address of the fault record, and the operator to store in it (kernels/headers/fault.h).
  TemplateCall& fault(const Operator& op);
  // A struct, passed by value, that the kernel declares identically. It must contain no pointers.
  template <class T>
  TemplateCall& value(const T& value) {
    return pack(&value, sizeof(value), false);
  }

  bool launch(Operator& op, int64_t groups);
  // For kernels that loop with HP_FOR_ELEMENTS.
  bool launch_elements(Operator& op, int64_t elements) { return launch(op, groups_for(elements)); }
  // For an operator with a single launch: launches, counts the call and notifies observers.
  bool run(const OpBinding& binding, int64_t groups);
  bool run_elements(const OpBinding& binding, int64_t elements) { return run(binding, groups_for(elements)); }
  // Work-groups in launch_elements.
  int64_t groups_for(int64_t elements) const { return ceil_div(elements, kernel_->elements_per_group); }
  // Rows per work-group: 1 if a group has many work-items, else enough rows to amortize the launch of a group.
  int64_t rows_per_group(int64_t row_elements) const;

 private:
  TemplateCall& pack(const void* value, size_t bytes, bool is_pointer);
  static std::string describe(const void* self);

  static constexpr int kMaxArguments = 224;
  static constexpr size_t kMaxBytes = 4096;  // CUDA's limit
  const KernelTemplate& kernels_;
  Device& device_;
  SpecializationKey key_;
  const PortableKernel* kernel_;
  uint32_t count_ = 0;
  size_t used_ = 0;
  std::array<HpLaunchArg, kMaxArguments> args_;
  alignas(16) std::array<unsigned char, kMaxBytes> values_;
};

}  // namespace hp
