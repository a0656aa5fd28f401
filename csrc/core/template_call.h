// Launches of kernels that are written by hand in the portable dialect (src/hardpoint/kernels/*.c).
#pragma once

#include <array>
#include <cstring>
#include <initializer_list>

#include "philox.h"
#include "portable.h"
#include "view.h"

namespace hp {

// A kernel of a family's file, such as "softmax:forward", with the names of what it is specialised for: types first,
// then integers. At most 8 of each; an integer is from 0 to 255. A static of the function that launches it.
class TemplateKernels : public PortableKernels {
 public:
  TemplateKernels(const char* name, std::initializer_list<const char*> types,
                  std::initializer_list<const char*> integers = {})
      : PortableKernels(name) {
    for (const char* type : types) types_[num_types_++] = type;
    for (const char* integer : integers) integers_[num_integers_++] = integer;
  }

 private:
  friend class TemplateCall;
  std::array<const char*, 8> types_{}, integers_{};
  int num_types_ = 0, num_integers_ = 0;
};

// Whether a kernel may have more than a kilobyte of arguments: OpenCL promises no more, the other dialects take what
// TemplateCall does.
bool takes_many_arguments(const Device& device);

// One launch: the kernel is looked up at once, arguments are packed in order, then it goes to the current stream.
class TemplateCall {
 public:
  TemplateCall(TemplateKernels& kernels, Device& device, std::initializer_list<DType> types,
               std::initializer_list<int> integers = {});

  // Whether the device has such a kernel; if not, the next tier takes the call.
  bool available() const { return kernel_->function != nullptr; }

  TemplateCall& arg(const View& view) { return pointer(view.data); }
  TemplateCall& pointer(const void* address) { return pack(&address, sizeof(address), true); }
  TemplateCall& integer(int64_t value) { return pack(&value, sizeof(value), false); }
  TemplateCall& real(double value) { return pack(&value, sizeof(value), false); }
  // A number in the type `T_a` of a dtype.
  TemplateCall& real(double value, DType dtype) {
    return accumulator(dtype) == DType::kF64 ? real(value) : this->value(static_cast<float>(value));
  }
  // Two arguments: the seed, and where the random numbers of this launch begin.
  TemplateCall& state(PhiloxState at);
  // Two arguments: where the kernel writes a fault, and what it writes to name the operator (kernels/fault.h).
  TemplateCall& fault(const Operator& op);
  // A struct that the kernel declares the same way, of integers and numbers only.
  template <class T>
  TemplateCall& value(const T& value) {
    return pack(&value, sizeof(value), false);
  }

  void launch(Operator& op, int64_t groups);
  // For kernels that share `elements` out by HP_FOR_ELEMENTS.
  void launch_elements(Operator& op, int64_t elements);
  // What launch_elements gives to one group.
  int64_t elements_per_group() const { return kernel_->elements_per_group; }
  // The groups of such a launch.
  int64_t groups_for(int64_t elements) const;
  // Rows that one group should take, so that it has enough to do: 1 where a group has many work-items.
  int64_t rows_per_group(int64_t row_elements) const;

 private:
  TemplateCall& pack(const void* value, size_t bytes, bool is_pointer);
  static std::string describe(const void* self);

  static constexpr int kMaxArguments = 224;
  static constexpr size_t kMaxBytes = 4096;  // CUDA takes no more
  const TemplateKernels& kernels_;
  Device& device_;
  SpecialisationKey key_;
  const PortableKernel* kernel_;
  uint32_t count_ = 0;
  size_t used_ = 0;
  std::array<HpLaunchArg, kMaxArguments> args_;
  alignas(16) std::array<unsigned char, kMaxBytes> values_;
};

}  // namespace hp
