#include "creation.h"

#include "../core/copy_views.h"
#include "../core/dimensions.h"
#include "../core/template_call.h"
#include "../core/words.h"
#include "parts.h"

namespace hp::ops {
namespace {

// Numbers as a kernel for that counter takes them.
void numbers(TemplateCall& call, DType type, std::initializer_list<double> values) {
  for (double value : values) {
    if (type == DType::kF64) {
      call.real(value);
    } else {
      call.value(static_cast<float>(value));
    }
  }
}

// Launches with a counter in double precision, or in single where the device has no other.
bool count(const Service& service, Device& device, TemplateKernels& kernels, const View& out,
           std::initializer_list<int> integers, std::initializer_list<double> values) {
  if (!service.has_compiler || !(is_float(out.dtype) || is_integer(out.dtype))) return false;
  PortableScope scope(service);
  for (DType type : {DType::kF64, DType::kF32}) {
    TemplateCall call(kernels, device, {out.dtype, type}, integers);
    if (!call.available()) continue;
    call.arg(out).integer(out.numel());
    numbers(call, type, values);
    call.launch_elements(service.op, out.numel());
    return scope.done();
  }
  return false;
}

bool spaced(const Service& service, Device& device, const View& out, double start, double end, double base, int log) {
  static TemplateKernels kernels("creation:linspace", {"T", "A"}, {"LOG"});
  const double steps = static_cast<double>(out.numel() - 1);
  if (steps == 0) end = start;  // a single number is the first
  return count(service, device, kernels, out, {log}, {start, end, steps > 0 ? (end - start) / steps : 0, base});
}

}  // namespace

bool fill(const Service& service, Device& device, const View& out, const int64_t* words) {
  static TemplateKernels kernels("creation:fill", {"T"}, {"DIMS", "INNER"});
  if (!service.has_compiler || !out.defined()) return false;
  Dimensions<1> dimensions;
  for (int d = out.ndim - 1; d >= 0; --d) dimensions.add(out.sizes[d], {out.strides[d]});
  dimensions.sort(0);
  dimensions.finish(1);
  const int dims = dimensions.count();
  if (dims > kMaxDimensions) return false;
  PortableScope scope(service);
  Geometry<1> geometry;
  dimensions.write(geometry);
  int64_t* steps = geometry.stride[0];
  const int64_t count = words_of(out.dtype);
  const DType word = word_of(out.dtype);
  for (int d = 0; d < dims; ++d) steps[d] *= count;
  for (int64_t part = 0; part < count; ++part) {
    TemplateCall call(kernels, device, {word}, {dims, steps[0] == 1});
    if (!call.available()) return false;
    call.pointer(static_cast<char*>(out.data) + part * info(word).bytes);
    call.integer(out.numel()).integer(words[part]).value(geometry).launch_elements(service.op, out.numel());
  }
  return scope.done();
}

bool fill_from(const Service& service, Device& device, const View& out, const View& value) {
  if (!service.has_compiler || !out.defined() || !value.defined()) return false;
  PortableScope scope(service);
  if (out.dtype == value.dtype) {
    if (out.ndim > kMaxDimensions) return false;
    const Words to(out), from(value);
    return copy_portable(service.op, device, to.view, from.view) && scope.done();
  }
  return copy_portable(service.op, device, out, value) && scope.done();
}

bool arange(const Service& service, Device& device, const View& out, double start, double step) {
  if (call_vendor(service, device, {output(out), attribute(start), attribute(step)})) return true;
  static TemplateKernels kernels("creation:arange", {"T", "A"});
  return count(service, device, kernels, out, {}, {start, step});
}

bool arange(const Service& service, Device& device, const View& out, int64_t start, int64_t step) {
  if (call_vendor(service, device, {output(out), attribute(start), attribute(step)})) return true;
  static TemplateKernels kernels("creation:arange", {"T", "A"});
  if (!service.has_compiler || !is_integer(out.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {out.dtype, DType::kI64});
  if (!call.available()) return false;
  call.arg(out).integer(out.numel()).integer(start).integer(step).launch_elements(service.op, out.numel());
  return scope.done();
}

bool linspace(const Service& service, Device& device, const View& out, double start, double end) {
  if (call_vendor(service, device, {output(out), attribute(start), attribute(end)})) return true;
  return spaced(service, device, out, start, end, 1, 0);
}

bool logspace(const Service& service, Device& device, const View& out, double start, double end, double base) {
  if (call_vendor(service, device, {output(out), attribute(start), attribute(end), attribute(base)})) return true;
  return spaced(service, device, out, start, end, base, 1);
}

bool eye(const Service& service, Device& device, const View& out) {
  if (call_vendor(service, device, {output(out)})) return true;
  static TemplateKernels kernels("creation:eye", {"T"});
  if (!service.has_compiler || !out.defined()) return false;
  PortableScope scope(service);
  const Parts to(out);
  TemplateCall call(kernels, device, {to.view.dtype});
  if (!call.available()) return false;
  const int64_t elements = to.view.numel(), parts = is_complex(out.dtype) ? 2 : 1;
  call.arg(out).integer(elements).integer(out.sizes[1]).integer(parts).launch_elements(service.op, elements);
  return scope.done();
}

bool complex(const Service& service, Device& device, const View& out, const View& real, const View& imag) {
  if (call_vendor(service, device, {output(out), input(real), input(imag)})) return true;
  if (!service.has_compiler || !is_complex(out.dtype) || out.ndim > kMaxDimensions) return false;
  PortableScope scope(service);
  int64_t strides[kMaxDimensions];
  for (int d = 0; d < out.ndim; ++d) strides[d] = 2 * out.strides[d];
  const DType half = out.dtype == DType::kC64 ? DType::kF32 : DType::kF64;
  for (int part = 0; part < 2; ++part) {
    const View to{static_cast<char*>(out.data) + part * info(half).bytes, half, out.ndim, out.sizes, strides};
    if (!copy_portable(service.op, device, to, part == 0 ? real : imag)) return false;
  }
  return scope.done();
}

}  // namespace hp::ops
