// Building blocks of the generated operator wrappers (hardpoint.codegen.torch_wrappers): torch's structured shape
// rules, operand preparation, and kernel calls.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <torch/version.h>

#include <functional>

#include "core/dispatch/kernel_call.h"
#include "core/dispatch/vendor_call.h"
#include "dispatch/decomposition.h"
#include "dispatch/pointwise.h"
#include "dispatch/tool_intercept.h"

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

// One ATen overload and the standard operator that serves it. Instances are function-local statics.
class Overload : public OpBinding {
 public:
  Overload(const char* aten_name, const char* kernel_name, PortableKernelTable* portable = nullptr)
      : OpBinding(torch_adapter::runtime(), std::string("aten::") + aten_name, kernel_name), portable_(portable) {}

  // Null if the device has no compiler, the operator no portable kernel, or a rule denies it.
  PortableKernelTable* portable() const { return portable_allowed ? portable_ : nullptr; }
  // Whether a tool intercepts this call: the wrapper then hands it to the fallback, which calls the wrapper again.
  bool intercepted() const { return C10_UNLIKELY(op.intercepted()) && should_intercept(op); }

 private:
  PortableKernelTable* const portable_;
};

// ---- Outputs, as a structured kernel's shape rule requests them

enum class Form { kFunctional, kOut, kInplace };

void prepare_output(Form form, at::Tensor& output, at::IntArrayRef sizes, at::IntArrayRef strides,
                    const at::TensorOptions& options);

template <class Meta, Form kForm, int kOutputs>
class Structured final : public Meta {
 public:
  // Existing outputs are not owned: a second reference to a tensor that Python owns acquires the GIL twice.
  using Output = std::conditional_t<kForm == Form::kFunctional, at::Tensor, std::reference_wrapper<at::Tensor>>;
  std::array<Output, kOutputs> outputs;

  template <class... Existing>
  explicit Structured(Existing&... existing) : outputs{existing...} {}

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

// The common case, which skips the shape rule: contiguous floating-point operands of one dtype and shape.
inline bool takes_fast_path(const at::Tensor& a) {
  return on_device(a) && a.is_contiguous() && at::isFloatingType(a.scalar_type()) && a.numel() != 0;
}
inline bool takes_fast_path(const at::Tensor& a, const at::Tensor& b) {
  return takes_fast_path(a) && on_device(b) && b.scalar_type() == a.scalar_type() && b.device() == a.device() &&
         b.sizes() == a.sizes() && b.is_contiguous();
}

// An existing output of that kind, which overlaps each input exactly or not at all.
inline bool output_takes_fast_path(const at::Tensor& output, std::initializer_list<const at::Tensor*> inputs) {
  if (!takes_fast_path(output)) return false;
  const auto* begin = static_cast<const char*>(output.const_data_ptr());
  const auto bytes = static_cast<ptrdiff_t>(output.nbytes());
  for (const at::Tensor* input : inputs) {
    if (!takes_fast_path(output, *input)) return false;
    const ptrdiff_t distance = static_cast<const char*>(input->const_data_ptr()) - begin;
    if (distance != 0 && std::abs(distance) < bytes) return false;
  }
  return true;
}

// Attributes that torch's shape rule may reject for floating-point operands.
inline bool is_bool_or_complex(const at::Scalar& attribute) { return attribute.isBoolean() || attribute.isComplex(); }

// A scalar that is neither boolean nor complex.
inline TVMFFIAny ffi_number(const at::Scalar& value) {
  return value.isIntegral(false) ? ffi_value(kTVMFFIInt, value.toLong()) : ffi_real(value.toDouble());
}

template <class... Attributes>
bool fast_path_pointwise(const Overload& overload, const hp::Kernel& kernel, at::Tensor& output,
                         std::initializer_list<const at::Tensor*> inputs, const Attributes&... attributes) {
  if ((false || ... || is_bool_or_complex(attributes))) return false;
  const at::Tensor& first = **inputs.begin();
  if (!output.defined()) output = empty(first.sizes(), first.scalar_type(), first.device().index());
  KernelCall<1 + PointwiseCall::kMaxInputs + PointwiseLaunch::kMaxAttributes> call(overload.op, kernel,
                                                                                   device_holding(first));
  const DType dtype = storage_dtype(first.scalar_type());
  call.add(view_as(output, dtype));
  for (const at::Tensor* input : inputs) call.add(view_as(*input, dtype));
  (call.add(ffi_number(attributes)), ...);
  return call.run();
}

inline at::ScalarType compute_type(const at::TensorIteratorBase& iterator) {
  const at::ScalarType common = iterator.common_dtype();
  return common != at::ScalarType::Undefined ? common : iterator.dtype(iterator.noutputs());
}

// Configurations that TensorIterator does not provide.
at::TensorIterator force_bool_iterator(const at::Tensor& output, const at::Tensor& self);
at::TensorIterator where_iterator(const at::Tensor& output, const at::Tensor& condition, const at::Tensor& self,
                                  const at::Tensor& other);

// The index of a string attribute's value among the operator's variants.
inline Variant variant_of(std::string_view value, std::initializer_list<std::string_view> variants) {
  Variant position = 0;
  for (std::string_view candidate : variants) {
    if (candidate == value) return position;
    ++position;
  }
  return position;  // no kernel has it: the CPU tier raises torch's own error
}
inline Variant variant_of(std::optional<std::string_view> value, std::initializer_list<std::string_view> variants) {
  return variant_of(value.value_or(""), variants);
}

// Whether torch accepts `value` for this dtype; if not, the CPU tier raises torch's own error.
bool representable(const at::Scalar& value, at::ScalarType dtype);

inline bool fill(const Overload& overload, const hp::Kernel& kernel, const at::Tensor& output,
                 const at::Scalar& value) {
  return representable(value, output.scalar_type()) &&
         vendor_pointwise(overload.op, kernel, output, output.scalar_type(), {output_of(output), operand(value)});
}

inline at::Tensor output_like(const at::Tensor& self) {
  return self.is_non_overlapping_and_dense()
             ? empty_strided(self.sizes(), self.strides(), self.scalar_type(), self.device().index())
             : empty(self.sizes(), self.scalar_type(), self.device().index());
}

// All tensors must be on one device, as CUDA's generated wrappers check.
void check_same_device(const Overload& overload, std::initializer_list<const at::Tensor*> tensors);

}  // namespace hp::torch_adapter
