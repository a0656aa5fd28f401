// One call of a Phi kernel, from dygraph (a plain C++ call) or from a graph (a KernelContext), and the tables that map
// kernels to functions.
//
// How to map a Paddle kernel (tables: src/hardpoint/ops/phi/FAMILY.py):
// - To a pointwise operator: add a line to the table. pointwise.cpp does the rest.
// - To a custom operator: add `"softmax": {"softmax": PLAIN}` (operator, kernel) to the table, and a function named
//   like the kernel, `bool softmax(Call& call)`, to csrc/paddle/ops/FAMILY.cpp, which ends with
//   `#include "generated/FAMILY.inc"`. The function reads its arguments in the order of the kernel's signature
//   (paddle/phi/kernels/NAME_kernel.h in Paddle's include folder), with inputs, attributes and outputs numbered
//   separately; resolves differences between Paddle's and the standard operator's semantics; allocates outputs with
//   `call.allocate(i)` (Paddle's InferMeta has set their shapes); and calls the function in csrc/ops with
//   `call.binding()`, which counts the call.
// - To several operators: add the kernel's name to the table's COMPOSED, and a function built from composition.h.
// - A kernel that Paddle has for GPUs only: the same, and add its arguments to the table's SIGNATURES.
// A function returns false to hand the call to the CPU tier. It must do so before launching anything and before
// allocating an output that may alias an input. Inputs are contiguous, except for Paddle's few stride kernels, and may
// have no memory if only their shape is used; `call.inputs_ready()` checks that all are contiguous and on the device.
#pragma once

#include <paddle/phi/common/int_array.h>
#include <paddle/phi/common/scalar.h>
#include <paddle/phi/core/kernel_factory.h>

#include <atomic>
#include <deque>
#include <memory>

#include "core/dispatch/vendor_call.h"
#include "runtime/adapter.h"

namespace hp::paddle_adapter {

class Call;

// What a Paddle kernel is mapped to.
struct Mapping {
  const char* standard;          // the standard operator behind it; null if it is composed of several
  bool (*function)(Call& call);  // false: not served, use the CPU tier
  const void* data = nullptr;    // for the function's use
};

enum class InputKind : uint8_t { kDense, kOptional, kList, kOptionalList };
inline bool is_list(InputKind kind) { return kind == InputKind::kList || kind == InputKind::kOptionalList; }

// Whether the dtype is a 16-bit float.
inline bool is_narrow(phi::DataType dtype) {
  return dtype == phi::DataType::FLOAT16 || dtype == phi::DataType::BFLOAT16;
}

// An operator's bindings, one per mounted plug-in, created on first use and never destroyed. Thread-safe.
class BindingCache {
 public:
  // Null before `create`.
  const OpBinding* find(const Runtime& runtime) const {
    return bindings_[runtime.slot].load(std::memory_order_acquire);
  }
  const OpBinding& create(Runtime& runtime, const std::string& framework_name, const std::string& standard);

 private:
  std::array<std::atomic<const OpBinding*>, kMaxRuntimes> bindings_{};
};

// A Paddle kernel for one dtype. Never destroyed.
struct PhiKernel {
  std::string name;
  phi::DataType dtype;
  phi::Kernel cpu;       // a copy, since Paddle's table may move its entries; invalid if Paddle has no CPU kernel
  bool widened = false;  // `cpu` is the float32 kernel, used for this 16-bit float dtype
  std::vector<InputKind> inputs;
  std::vector<phi::AttributeType> attributes;
  std::vector<bool> outputs;                 // true for a list of tensors
  std::vector<phi::DataType> output_dtypes;  // UNDEFINED: depends on the arguments
  const Mapping* mapping = nullptr;
  Operator* op = nullptr;

  const OpBinding& binding(Runtime& runtime) const {
    const OpBinding* known = bindings_.find(runtime);
    return known != nullptr ? *known : make_binding(runtime);
  }

 private:
  const OpBinding& make_binding(Runtime& runtime) const;
  mutable BindingCache bindings_;
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

  const OpBinding& binding() const { return kernel.binding(device.runtime); }

  // Null if an optional input is absent.
  const DenseTensor* input(int i) const { return inputs_[i].one; }
  List<const DenseTensor> inputs(int i) const { return inputs_[i].list(); }
  // Null if the caller does not need it.
  DenseTensor* output(int i) const { return outputs_[i].one; }
  List<DenseTensor> outputs(int i) const { return outputs_[i].list(); }
  int num_inputs() const { return static_cast<int>(kernel.inputs.size()); }
  int num_outputs() const { return static_cast<int>(kernel.outputs.size()); }
  int num_attributes() const { return static_cast<int>(kernel.attributes.size()); }

  // T must be the attribute's type in the kernel's signature: bool, int, int64_t, float, double, std::string, DataType,
  // Scalar, IntArray...
  template <class T>
  const T& attr(int i) const {
    return *static_cast<const T*>(attributes_[i].object);
  }
  // A numeric attribute of any type, converted.
  double real(int i) const;
  int64_t integer(int i) const;
  std::vector<int64_t> integers(int i) const;
  // The attribute as Paddle's variant type.
  phi::Attribute attribute(int i) const;

  // Whether the output is also one of the inputs, as in programs that update a variable in place.
  bool is_input(const DenseTensor& tensor) const;
  // Whether every input that has elements is contiguous, on the device and of a dtype that core knows.
  bool inputs_ready() const;
  // Allocates an output in its present shape and dtype (the kernel's if undefined), and returns its view.
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
    alignas(8) unsigned char value[16];  // storage for attributes passed by value
  };

  std::array<Slot<const DenseTensor>, kMaxInputs> inputs_;
  std::array<Slot<DenseTensor>, kMaxOutputs> outputs_;
  std::array<Attribute, kMaxAttributes> attributes_;
  // Storage that only calls from a graph need: lists, and attributes read from tensors.
  struct OwnedArguments {
    std::deque<std::vector<const DenseTensor*>> inputs;
    std::deque<std::vector<DenseTensor*>> outputs;
    std::deque<phi::Scalar> scalars;
    std::deque<phi::IntArray> arrays;
  };
  OwnedArguments& owned_arguments() {
    if (!owned_arguments_) owned_arguments_ = std::make_unique<OwnedArguments>();
    return *owned_arguments_;
  }
  std::unique_ptr<OwnedArguments> owned_arguments_;
};

// Registers a mapping. Instances are statics in generated/FAMILY.inc.
struct MappingRegistration {
  MappingRegistration(const char* phi_name, Mapping mapping);
};
const Mapping* find_mapping(const std::string& phi_name);

// The arguments of a kernel that Paddle has for GPUs only. Those of other kernels are read from the CPU kernel.
// Generated from the tables, too.
struct Signature {
  std::vector<InputKind> inputs;
  std::vector<phi::AttributeType> attributes;
  int outputs;
};
struct SignatureRegistration {
  SignatureRegistration(const char* phi_name, Signature signature);
};
const std::vector<std::pair<std::string, Signature>>& signatures();

struct RegistrationReport {
  int registered = 0, mapped = 0, skipped = 0;
};
// Registers a kernel for the plug-in's device for every dense CPU kernel of Paddle and every entry of SIGNATURES.
RegistrationReport register_kernels(Runtime& runtime);
// Null if no such kernel is registered.
const PhiKernel* find_kernel(const std::string& name, phi::DataType dtype);
// Serves a call described by a KernelContext: one from a graph, or a replayed one.
void run_boxed(const PhiKernel& kernel, phi::KernelContext& context);

// Runs the CPU kernel on host copies of the inputs and copies the outputs to the device. Throws Error if the tier is
// denied by a rule or Paddle has no CPU kernel.
void cpu_tier(Call& call);

}  // namespace hp::paddle_adapter
