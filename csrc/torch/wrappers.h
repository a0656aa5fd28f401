// The building blocks of the generated operator wrappers (hardpoint.codegen): shape rules from torch's own structured
// kernels, operand preparation, and the call of the device's kernel.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <torch/version.h>

#include <functional>

#include "../core/service.h"
#include "decomposition.h"
#include "kernel_call.h"
#include "pointwise.h"
#include "watch.h"

// torch 2.12 and older pass dimension names through the structured interface.
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13
#define HP_NAMES_PARAMETER
#define HP_NAMES_ARGUMENT
#else
#define HP_NAMES_PARAMETER , at::DimnameList
#define HP_NAMES_ARGUMENT \
  , {}
#endif

namespace hp::torch_adapter {

// One ATen overload and the standard operator that serves it. Lives for ever, as a function's static.
class Overload : public Service {
 public:
  Overload(const char* aten_name, const char* kernel_name, PortableKernels* portable = nullptr)
      : Service(torch_adapter::runtime(), std::string("aten::") + aten_name, kernel_name), portable_(portable) {}

  // Null where the device has no compiler, the operator no portable kernel, or rules deny it.
  PortableKernels* portable() const { return has_compiler ? portable_ : nullptr; }
  // Whether a tool wants to see this call first: it goes the way of the last tiers, and comes back from there.
  bool watched() const { return C10_UNLIKELY(op.watched()) && to_watch(op); }

 private:
  PortableKernels* const portable_;
};

// For an operator that only the device has: no rule can send it elsewhere.
class BoundOverload : public Overload {
 public:
  BoundOverload(const char* aten_name, const char* kernel_name) : Overload(aten_name, kernel_name) { op.bind(); }
};

// ---- Outputs: what a structured kernel's shape rule asks for

enum class Form { kFunctional, kOut, kInplace };

void prepare_output(Form form, at::Tensor& output, at::IntArrayRef sizes, at::IntArrayRef strides,
                    const at::TensorOptions& options);

template <class Meta, Form kForm, int kOutputs>
class Structured final : public Meta {
 public:
  // Given outputs are not owned: a second owner of a tensor that Python has takes Python's lock, twice.
  using Output = std::conditional_t<kForm == Form::kFunctional, at::Tensor, std::reference_wrapper<at::Tensor>>;
  std::array<Output, kOutputs> outputs;

  template <class... Given>
  explicit Structured(Given&... given) : outputs{given...} {}

  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options HP_NAMES_PARAMETER) override {
    set(i, sizes, strides, options);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options HP_NAMES_PARAMETER) override {
    set(i, sizes, strides, options);
  }
  const at::Tensor& maybe_get_output(int64_t i) override { return outputs[i]; }

 private:
  void set(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
    prepare_output(kForm, outputs[i], sizes, strides, options);
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Meta>) {
      Meta::set_output_raw_strided(i, sizes, strides, options HP_NAMES_ARGUMENT);
    }
  }
};

// ---- Calls

constexpr int kMaxInputs = 3;
constexpr int kMaxAttributes = 4;
using Call = KernelCall<1 + kMaxInputs + kMaxAttributes>;

inline void add_attributes(Call&) {}
template <class... Rest>
void add_attributes(Call& call, const at::Scalar& first, const Rest&... rest) {
  call.add(first);
  add_attributes(call, rest...);
}

// The kernel writes here: the output itself, or a stand-in that is copied to it when the kernel cannot take its layout
// or dtype.
class Destination {
 public:
  Destination(const at::Tensor& output, at::ScalarType dtype, bool any_strides) : output_(output) {
    if (output.scalar_type() != dtype || !(any_strides || output.is_contiguous()) || output.is_conj() ||
        output.is_neg()) {
      stand_in_ = empty(output.sizes(), dtype, output.device().index());
    }
  }
  const at::Tensor& tensor() const { return stand_in_.defined() ? stand_in_ : output_; }
  void finish() const {
    if (stand_in_.defined()) copy_tensor(output_, stand_in_, false);
  }

 private:
  const at::Tensor& output_;
  at::Tensor stand_in_;
};

// An input: a tensor, or a number in place of one. `as_is`: it does not take part in the computation's dtype.
struct Operand {
  Operand(const at::Tensor& tensor, bool as_is = false) : tensor(&tensor), as_is(as_is) {}
  Operand(const at::Scalar& number) : number(&number) {}
  const at::Tensor* tensor = nullptr;
  const at::Scalar* number = nullptr;
  bool as_is = false;
};

// Operands are brought to the computation's dtype and the output's shape; a CPU scalar is passed as a number.
template <size_t kInputs, class... Attributes>
bool vendor_pointwise(const Overload& overload, const hp::Kernel& kernel, const at::Tensor& output,
                      at::ScalarType compute, const std::array<Operand, kInputs>& inputs,
                      const Attributes&... attributes) {
  if (output.numel() == 0) return true;
  const bool any_strides = (kernel.flags & HP_KERNEL_STRIDED) != 0;
  const Destination destination(output, compute, any_strides);
  Call call(overload.op, kernel, device_holding(output));
  call.add(destination.tensor());
  std::array<at::Tensor, kInputs> kept;
  for (size_t i = 0; i < kInputs; ++i) {
    const at::Tensor* operand = inputs[i].tensor;
    if (operand == nullptr) {
      call.add(*inputs[i].number);
      continue;
    }
    if (!on_device(*operand)) {
      call.add(operand->item());
      continue;
    }
    if (!inputs[i].as_is && operand->scalar_type() != compute) operand = &(kept[i] = operand->to(compute));
    if (operand->sizes() != output.sizes()) operand = &(kept[i] = operand->expand(output.sizes()));
    if (!any_strides && !operand->is_contiguous()) operand = &(kept[i] = operand->contiguous());
    call.add(*operand);
  }
  add_attributes(call, attributes...);
  if (!call.run()) return false;
  destination.finish();
  return true;
}

// The usual case, without the shape rule: floating-point operands of one dtype and shape, all contiguous.
inline bool plain(const at::Tensor& a) {
  return on_device(a) && a.is_contiguous() && at::isFloatingType(a.scalar_type()) && a.numel() != 0;
}
inline bool plain(const at::Tensor& a, const at::Tensor& b) {
  return plain(a) && on_device(b) && b.scalar_type() == a.scalar_type() && b.device() == a.device() &&
         b.sizes() == a.sizes() && b.is_contiguous();
}

// An existing output that such operands can go to: alike, and over an operand exactly or not at all.
inline bool plain_output(const at::Tensor& output, std::initializer_list<const at::Tensor*> inputs) {
  if (!plain(output)) return false;
  const auto* begin = static_cast<const char*>(output.const_data_ptr());
  const auto bytes = static_cast<ptrdiff_t>(output.nbytes());
  for (const at::Tensor* input : inputs) {
    if (!plain(output, *input)) return false;
    const ptrdiff_t distance = static_cast<const char*>(input->const_data_ptr()) - begin;
    if (distance != 0 && std::abs(distance) < bytes) return false;
  }
  return true;
}

// Attributes that torch's shape rule may refuse for floating-point operands.
inline bool unusual(const at::Scalar& attribute) { return attribute.isBoolean() || attribute.isComplex(); }

template <class... Attributes>
bool plain_pointwise(const Overload& overload, const hp::Kernel& kernel, at::Tensor& output,
                     std::initializer_list<const at::Tensor*> inputs, const Attributes&... attributes) {
  if ((false || ... || unusual(attributes))) return false;
  const at::Tensor& first = **inputs.begin();
  if (!output.defined()) output = empty(first.sizes(), first.scalar_type(), first.device().index());
  Call call(overload.op, kernel, device_holding(first));
  call.add(output);
  for (const at::Tensor* input : inputs) call.add(*input);
  add_attributes(call, attributes...);
  return call.run();
}

inline at::ScalarType compute_type(const at::TensorIteratorBase& iterator) {
  const at::ScalarType common = iterator.common_dtype();
  return common != at::ScalarType::Undefined ? common : iterator.dtype(iterator.noutputs());
}

// Set-ups that TensorIterator does not name itself.
at::TensorIterator force_bool_iterator(const at::Tensor& output, const at::Tensor& self);
at::TensorIterator where_iterator(const at::Tensor& output, const at::Tensor& condition, const at::Tensor& self,
                                  const at::Tensor& other);

// The portable kernel, over an iterator that has the shapes settled. Attributes are numbers.
template <class... Attributes>
bool portable_pointwise(const Overload& overload, at::TensorIteratorBase& iterator, at::ScalarType compute,
                        Variant variant, std::initializer_list<const at::Tensor*> inputs,
                        const Attributes&... attributes) {
  PointwiseCall call(overload.op, *overload.portable(), iterator, compute, variant);
  call.inputs(inputs);
  (call.attribute(attributes), ...);
  return call.run();
}

// The position of a string attribute's value among the operator's variants.
inline Variant variant_of(std::string_view value, std::initializer_list<std::string_view> variants) {
  Variant position = 0;
  for (std::string_view candidate : variants) {
    if (candidate == value) return position;
    ++position;
  }
  return position;  // one that no kernel is made for: the CPU tier gives torch's own error
}
inline Variant variant_of(std::optional<std::string_view> value, std::initializer_list<std::string_view> variants) {
  return variant_of(value.value_or(""), variants);
}

// Whether torch would take `value` for this dtype; if not, the CPU tier gives torch's own error.
bool representable(const at::Scalar& value, at::ScalarType dtype);

inline bool fill(const Overload& overload, const hp::Kernel& kernel, const at::Tensor& output,
                 const at::Scalar& value) {
  return representable(value, output.scalar_type()) &&
         vendor_pointwise(overload, kernel, output, output.scalar_type(), std::array<Operand, 0>{}, value);
}

inline at::Tensor output_like(const at::Tensor& self) {
  return self.is_non_overlapping_and_dense()
             ? empty_strided(self.sizes(), self.strides(), self.scalar_type(), self.device().index())
             : empty(self.sizes(), self.scalar_type(), self.device().index());
}

// What CUDA's generated wrappers check: all tensors on one device.
void check_same_device(const Overload& overload, std::initializer_list<const at::Tensor*> tensors);

}  // namespace hp::torch_adapter
