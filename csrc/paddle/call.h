// One call of a Phi kernel, whichever way it came in: dygraph's C++ call or a graph's KernelContext.
//
// How a kernel of Paddle is mapped (tables: src/hardpoint/ops/phi/FAMILY.py):
// - Onto a pointwise operator: a line in the table; pointwise.cpp does the rest.
// - Onto a custom operator: `"softmax": {"softmax": PLAIN}` in the table (operator, kernel) and a function of the
//   kernel's name, `bool softmax(Call& call)`, in csrc/paddle/ops/FAMILY.cpp, which ends with
//   `#include "generated/FAMILY.inc"`. It reads its arguments in the order of the kernel's signature
//   (paddle/phi/kernels/NAME_kernel.h in Paddle's include folder), counted apart for inputs, attributes and outputs;
//   settles what Paddle does differently; allocates outputs with `call.allocate(i)`, whose sizes Paddle's shape rule
//   has set; and calls the function of csrc/ops with `call.service()`, which counts the call.
// - Onto several operators: the kernel's name in the table's COMPOSED, and such a function made of steps (parts.h).
// - A kernel that Paddle has for GPUs alone is mapped the same way, and has its arguments in the table's SIGNATURES.
// A function returns false to hand the call to the CPU tier: before it launches anything, and before it allocates an
// output that may be one of its inputs. Inputs arrive contiguous, but for Paddle's few kernels for strides, and may be
// without memory where the sizes alone matter; `call.plain()` says that all are there, contiguous, and on the device.
#pragma once

#include <paddle/phi/common/int_array.h>
#include <paddle/phi/common/scalar.h>
#include <paddle/phi/core/kernel_factory.h>

#include <atomic>
#include <deque>
#include <memory>

#include "../core/service.h"
#include "adapter.h"

namespace hp::paddle_adapter {

class Call;

// What a kernel of Paddle is mapped to: a function, and the standard operator whose vendor kernel it calls, if it is
// one.
struct Mapping {
  const char* standard;
  bool (*function)(Call& call);
  const void* data = nullptr;  // the function's own
};

enum class InputKind : uint8_t { kDense, kOptional, kList, kOptionalList };

// A kernel of Paddle for one dtype. Lives for ever.
struct PhiKernel {
  std::string name;
  phi::DataType dtype;
  phi::Kernel cpu;       // a copy: Paddle's table moves its own around; not valid where there is none
  bool widened = false;  // the CPU's kernel is one for single precision, the dtype a 16-bit float
  std::vector<InputKind> inputs;
  std::vector<phi::AttributeType> attributes;
  std::vector<bool> outputs;  // whether it is a list
  const Mapping* mapping = nullptr;
  Operator* op = nullptr;

  const Service& service(Runtime& runtime) const {
    const Service* known = services_[runtime.slot].load(std::memory_order_acquire);
    return known != nullptr ? *known : make_service(runtime);
  }

 private:
  const Service& make_service(Runtime& runtime) const;
  mutable std::array<std::atomic<const Service*>, kMaxRuntimes> services_{};
};

template <class T>
struct List {
  T* const* items = nullptr;
  int count = 0;
  T* const* begin() const { return items; }
  T* const* end() const { return items + count; }
  T* operator[](int i) const { return items[i]; }
};

class Call {
 public:
  static constexpr int kMaxInputs = 32, kMaxAttributes = 48, kMaxOutputs = 32;

  Call(const PhiKernel& kernel, const phi::DeviceContext& context)
      : kernel(kernel), context(context), device(stream_of(context).device) {}
  Call(const Call&) = delete;

  const PhiKernel& kernel;
  const phi::DeviceContext& context;
  Device& device;

  const Service& service() const { return kernel.service(device.runtime); }

  // Null where an optional one is absent.
  const DenseTensor* input(int i) const { return inputs_[i].one; }
  List<const DenseTensor> inputs(int i) const { return inputs_[i].list(); }
  // Null where nobody wants it.
  DenseTensor* output(int i) const { return outputs_[i].one; }
  List<DenseTensor> outputs(int i) const { return outputs_[i].list(); }
  int num_inputs() const { return static_cast<int>(kernel.inputs.size()); }
  int num_outputs() const { return static_cast<int>(kernel.outputs.size()); }
  int num_attributes() const { return static_cast<int>(kernel.attributes.size()); }

  // An attribute in the kernel's own type: bool, int, int64_t, float, double, std::string, DataType, Scalar,
  // IntArray...
  template <class T>
  const T& attr(int i) const {
    return *static_cast<const T*>(attributes_[i].object);
  }
  // A number of whichever type.
  double real(int i) const;
  int64_t integer(int i) const;
  std::vector<int64_t> integers(int i) const;
  // The whole attribute as Paddle's variant.
  phi::Attribute attribute(int i) const;

  // Whether every input is on the device and contiguous.
  bool plain() const;
  // Memory for an output, with the sizes and the dtype that it has; its view.
  View allocate(int i) const { return allocate(*output(i)); }
  View allocate(DenseTensor& tensor) const {
    context.Alloc(&tensor, tensor.dtype() == phi::DataType::UNDEFINED ? kernel.dtype : tensor.dtype());
    return view(tensor);
  }
  View view_of(int i) const { return input(i) == nullptr ? View{} : view(*input(i)); }

 private:
  friend class CallReader;
  template <class T>
  struct Slot {
    T* one;
    T* const* items;
    int count;
    void set(T* tensor) { one = tensor, items = nullptr, count = tensor != nullptr; }
    void set(T* const* list, int length) { one = length > 0 ? list[0] : nullptr, items = list, count = length; }
    List<T> list() const { return {items != nullptr ? items : &one, count}; }
  };
  struct Attribute {
    const void* object;
    alignas(8) unsigned char value[16];  // of small ones, which travel by value
  };

  std::array<Slot<const DenseTensor>, kMaxInputs> inputs_;
  std::array<Slot<DenseTensor>, kMaxOutputs> outputs_;
  std::array<Attribute, kMaxAttributes> attributes_;
  // What a graph's call needs besides: lists, and attributes that come as tensors.
  struct Kept {
    std::deque<std::vector<const DenseTensor*>> inputs;
    std::deque<std::vector<DenseTensor*>> outputs;
    std::deque<phi::Scalar> scalars;
    std::deque<phi::IntArray> arrays;
  };
  Kept& kept() {
    if (!kept_) kept_ = std::make_unique<Kept>();
    return *kept_;
  }
  std::unique_ptr<Kept> kept_;
};

// Enters a mapping; a static of the file that defines the function (generated from the tables).
struct Registration {
  Registration(const char* phi_name, Mapping mapping);
};
const Mapping* find_mapping(const std::string& phi_name);

// The arguments of a kernel that Paddle has for GPUs alone: the CPU's kernel, which tells those of the others, is
// missing. Generated from the tables as well.
struct Signature {
  std::vector<InputKind> inputs;
  std::vector<phi::AttributeType> attributes;
  int outputs;
};
struct SignatureRegistration {
  SignatureRegistration(const char* phi_name, Signature signature);
};
const std::vector<std::pair<std::string, Signature>>& signatures();

// Registers every dense kernel that Paddle has for the CPU as one of the plug-in's device.
struct RegistrationReport {
  int registered = 0, mapped = 0, skipped = 0;
};
RegistrationReport register_kernels(Runtime& runtime);
// The kernel of that name for a dtype; null if there is none.
const PhiKernel* find_kernel(const std::string& name, phi::DataType dtype);
// Serves a call that is described by a context, as one of a graph.
void run_boxed(const PhiKernel& kernel, phi::KernelContext& context);

// Runs the CPU's kernel on copies of the inputs, and brings the outputs back.
void cpu_tier(Call& call);

}  // namespace hp::paddle_adapter
