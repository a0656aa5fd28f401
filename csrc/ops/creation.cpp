#include "ops/creation.h"

#include "core/dispatch/template_call.h"
#include "core/tensor/collapsed_dims.h"
#include "core/tensor/copy_views.h"
#include "core/tensor/raw_view.h"
#include "ops/detail/complex_view.h"

namespace hp::ops {
namespace {

// Launches with a float64 counter, or float32 if the device has no float64.
bool count(const OpBinding& binding, Device& device, KernelTemplate& kernels, const View& out,
           std::initializer_list<int> integers, std::initializer_list<double> values) {
  if (!binding.portable_allowed || !(is_float(out.dtype) || is_integer(out.dtype))) return false;
  for (DType type : {DType::kF64, DType::kF32}) {
    TemplateCall call(kernels, device, {out.dtype, type}, integers);
    call.arg(out).integer(out.numel());
    for (double value : values) call.real(value, type);
    if (call.run_elements(binding, out.numel())) return true;
  }
  return false;
}

bool spaced(const OpBinding& binding, Device& device, const View& out, double start, double end, double base, int log) {
  static KernelTemplate kernels("creation:linspace", {"T", "A"}, {"LOG"});
  const double steps = static_cast<double>(out.numel() - 1);
  if (steps == 0) end = start;  // a single element is `start`
  return count(binding, device, kernels, out, {log}, {start, end, steps > 0 ? (end - start) / steps : 0, base});
}

}  // namespace

bool fill(const OpBinding& binding, Device& device, const View& out, const int64_t* words) {
  static KernelTemplate kernels("creation:fill", {"T"}, {"DIMS", "INNER"});
  if (!binding.portable_allowed || !out.defined()) return false;
  CollapsedDims<1> dimensions;
  for (int d = out.ndim - 1; d >= 0; --d) dimensions.add(out.sizes[d], {out.strides[d]});
  dimensions.sort(0);
  dimensions.finish(1);
  const int dims = dimensions.count();
  if (dims > kMaxKernelRank) return false;
  PortableScope scope(binding);
  StridedShape<1> geometry;
  dimensions.write(geometry);
  int64_t* steps = geometry.stride[0];
  const int64_t count = raw_units(out.dtype);
  const DType word = raw_dtype(out.dtype);
  for (int d = 0; d < dims; ++d) steps[d] *= count;
  for (int64_t part = 0; part < count; ++part) {
    TemplateCall call(kernels, device, {word}, {dims, steps[0] == 1});
    call.pointer(static_cast<char*>(out.data) + part * info(word).bytes);
    call.integer(out.numel()).integer(words[part]).value(geometry);
    if (!call.launch_elements(binding.op, out.numel())) return false;
  }
  return scope.done();
}

bool fill_from(const OpBinding& binding, Device& device, const View& out, const View& value) {
  if (!binding.portable_allowed || !out.defined() || !value.defined()) return false;
  PortableScope scope(binding);
  if (out.dtype != value.dtype) return copy_portable(binding.op, device, out, value) && scope.done();
  if (out.ndim > kMaxKernelRank) return false;
  const RawView to(out), from(value);
  return copy_portable(binding.op, device, to.view, from.view) && scope.done();
}

bool arange(const OpBinding& binding, Device& device, const View& out, double start, double step) {
  if (call_vendor(binding, device, {output(out), attribute(start), attribute(step)})) return true;
  static KernelTemplate kernels("creation:arange", {"T", "A"});
  return count(binding, device, kernels, out, {}, {start, step});
}

bool arange(const OpBinding& binding, Device& device, const View& out, int64_t start, int64_t step) {
  if (call_vendor(binding, device, {output(out), attribute(start), attribute(step)})) return true;
  static KernelTemplate kernels("creation:arange", {"T", "A"});
  if (!binding.portable_allowed || !is_integer(out.dtype)) return false;
  TemplateCall call(kernels, device, {out.dtype, DType::kI64});
  return call.arg(out).integer(out.numel()).integer(start).integer(step).run_elements(binding, out.numel());
}

bool linspace(const OpBinding& binding, Device& device, const View& out, double start, double end) {
  if (call_vendor(binding, device, {output(out), attribute(start), attribute(end)})) return true;
  return spaced(binding, device, out, start, end, 1, 0);
}

bool logspace(const OpBinding& binding, Device& device, const View& out, double start, double end, double base) {
  if (call_vendor(binding, device, {output(out), attribute(start), attribute(end), attribute(base)})) return true;
  return spaced(binding, device, out, start, end, base, 1);
}

bool eye(const OpBinding& binding, Device& device, const View& out) {
  if (call_vendor(binding, device, {output(out)})) return true;
  static KernelTemplate kernels("creation:eye", {"T"});
  if (!binding.portable_allowed || !out.defined()) return false;
  const ComplexAsReal to(out);
  TemplateCall call(kernels, device, {to.view.dtype});
  const int64_t elements = to.view.numel(), parts = is_complex(out.dtype) ? 2 : 1;
  return call.arg(out).integer(elements).integer(out.sizes[1]).integer(parts).run_elements(binding, elements);
}

bool complex(const OpBinding& binding, Device& device, const View& out, const View& real, const View& imag) {
  if (call_vendor(binding, device, {output(out), input(real), input(imag)})) return true;
  if (!binding.portable_allowed || !is_complex(out.dtype) || out.ndim > kMaxKernelRank) return false;
  PortableScope scope(binding);
  return copy_portable(binding.op, device, ComplexPart(out, 0).view, real) &&
         copy_portable(binding.op, device, ComplexPart(out, 1).view, imag) && scope.done();
}

}  // namespace hp::ops
