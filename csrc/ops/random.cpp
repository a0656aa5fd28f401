#include "random.h"

#include <cmath>

#include "../core/template_call.h"

namespace hp::ops {
namespace {

// A probability in units of 2^-32.
int64_t in_units(double p) { return std::llrint(p * 4294967296.0); }

bool fill_by_vendor(const Service& service, Device& device, const View& out, const RandomFill& fill, PhiloxState at) {
  const VendorArgument result = output(out), seed = seed_of(at), offset = offset_of(at);
  switch (fill.distribution) {
    case Distribution::kExponential:
    case Distribution::kGeometric:
    case Distribution::kBernoulli:
      return call_vendor(service, device, {result, seed, offset, attribute(fill.a)});
    case Distribution::kInteger:
      return call_vendor(service, device,
                         {result, seed, offset, attribute(static_cast<int64_t>(fill.range)), attribute(fill.low)});
    default:
      return call_vendor(service, device, {result, seed, offset, attribute(fill.a), attribute(fill.b)});
  }
}

bool sample(TemplateKernels& kernels, const Service& service, Device& device, const View& out, const View& parameter,
            const View& second, PhiloxState at) {
  if (!service.has_compiler || !is_float(out.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {out.dtype});
  if (!call.available()) return false;
  call.arg(out).arg(parameter);
  if (second.defined()) call.arg(second);
  const int64_t elements = out.numel();
  call.integer(elements).state(at).launch_elements(service.op, elements);
  return scope.done();
}

}  // namespace

bool RandomFill::wide(DType out) const {
  if (distribution == Distribution::kInteger) return range == 0 || range > UINT32_MAX;
  return distribution <= Distribution::kCauchy && out == DType::kF64;
}

uint64_t RandomFill::blocks(DType out, int64_t elements) const {
  return wide(out) ? static_cast<uint64_t>(elements + 1) / 2 : narrow_blocks(elements);
}

bool random_fill(const Service& service, Device& device, const View& out, const RandomFill& fill, PhiloxState at) {
  if (fill_by_vendor(service, device, out, fill, at)) return true;
  static TemplateKernels kernels("random:fill", {"T"}, {"DIST", "WIDE"});
  if (!service.has_compiler || !out.defined() || is_complex(out.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {out.dtype}, {static_cast<int>(fill.distribution), fill.wide(out.dtype)});
  if (!call.available()) return false;
  const double b = fill.distribution == Distribution::kGeometric ? std::log1p(-fill.a) : fill.b;
  const int64_t range =
      fill.distribution == Distribution::kBernoulli ? in_units(fill.a) : static_cast<int64_t>(fill.range);
  const int64_t elements = out.numel();
  call.arg(out).integer(elements).state(at).real(fill.a).real(b).integer(range).integer(fill.low);
  call.launch_elements(service.op, elements);
  return scope.done();
}

bool bernoulli_tensor(const Service& service, Device& device, const View& out, const View& p, PhiloxState at) {
  if (call_vendor(service, device, {output(out), input(p), seed_of(at), offset_of(at)})) return true;
  static TemplateKernels kernels("random:choose", {"T", "P"});
  if (!service.has_compiler || !out.defined() || is_complex(out.dtype) || !is_float(p.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {out.dtype, p.dtype});
  if (!call.available()) return false;
  const int64_t elements = out.numel();
  call.arg(out).arg(p).integer(elements).state(at).launch_elements(service.op, elements);
  return scope.done();
}

bool dropout(const Service& service, Device& device, const View& out, const View& mask, const View& input, double p,
             PhiloxState at) {
  if (call_vendor(service, device,
                  {output(out), output(mask), hp::input(input), seed_of(at), offset_of(at), attribute(p)})) {
    return true;
  }
  static TemplateKernels kernels("random:dropout", {"T"});
  if (!service.has_compiler || !is_float(out.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {out.dtype});
  if (!call.available()) return false;
  const int64_t elements = out.numel();
  call.arg(out)
      .arg(mask)
      .arg(input)
      .integer(elements)
      .state(at)
      .integer(in_units(1 - p))
      .real(p == 1 ? 0 : 1 / (1 - p))
      .launch_elements(service.op, elements);
  return scope.done();
}

bool dropout_backward(const Service& service, Device& device, const View& out, const View& grad, const View& mask,
                      double scale) {
  if (call_vendor(service, device, {output(out), input(grad), input(mask), attribute(scale)})) return true;
  static TemplateKernels kernels("random:dropout_backward", {"T"});
  if (!service.has_compiler || !is_float(out.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {out.dtype});
  if (!call.available()) return false;
  const int64_t elements = out.numel();
  call.arg(out).arg(grad).arg(mask).integer(elements).real(scale).launch_elements(service.op, elements);
  return scope.done();
}

bool rrelu_with_noise(const Service& service, Device& device, const View& out, const View& noise, const View& self,
                      double lower, double upper, PhiloxState at) {
  if (call_vendor(
          service, device,
          {output(out), output(noise), input(self), seed_of(at), offset_of(at), attribute(lower), attribute(upper)})) {
    return true;
  }
  static TemplateKernels kernels("random:rrelu", {"T"}, {"WIDE"});
  if (!service.has_compiler || !is_float(out.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {out.dtype}, {out.dtype == DType::kF64});
  if (!call.available()) return false;
  const int64_t elements = out.numel();
  call.arg(out).arg(noise).arg(self).integer(elements).state(at).real(lower).real(upper);
  call.launch_elements(service.op, elements);
  return scope.done();
}

bool standard_gamma(const Service& service, Device& device, const View& out, const View& shape, PhiloxState at) {
  if (call_vendor(service, device, {output(out), input(shape), seed_of(at), offset_of(at)})) return true;
  static TemplateKernels kernels("random:gamma", {"T"});
  return sample(kernels, service, device, out, shape, {}, at);
}

bool poisson(const Service& service, Device& device, const View& out, const View& rate, PhiloxState at) {
  if (call_vendor(service, device, {output(out), input(rate), seed_of(at), offset_of(at)})) return true;
  static TemplateKernels kernels("random:poisson", {"T"});
  return sample(kernels, service, device, out, rate, {}, at);
}

bool binomial(const Service& service, Device& device, const View& out, const View& count, const View& prob,
              PhiloxState at) {
  if (call_vendor(service, device, {output(out), input(count), input(prob), seed_of(at), offset_of(at)})) return true;
  static TemplateKernels kernels("random:binomial", {"T"});
  return sample(kernels, service, device, out, count, prob, at);
}

bool multinomial(const Service& service, Device& device, const View& out, const View& weights, PhiloxState at) {
  if (call_vendor(service, device, {output(out), input(weights), seed_of(at), offset_of(at)})) return true;
  static TemplateKernels totals("random:totals", {"T"}), search("random:search", {"T"});
  if (!service.has_compiler || !is_float(weights.dtype)) return false;
  PortableScope scope(service);
  const DType sum = accumulator(weights.dtype);
  TemplateCall adding(totals, device, {weights.dtype}), searching(search, device, {sum});
  if (!adding.available() || !searching.available()) return false;
  const int64_t width = weights.sizes[weights.ndim - 1], rows = weights.numel() / width, elements = out.numel();
  const Scratch total(device, rows * width * info(sum).bytes);
  const int64_t per_group = adding.rows_per_group(width);
  adding.pointer(total.get()).arg(weights).integer(rows).integer(width).integer(per_group);
  adding.launch(service.op, (rows + per_group - 1) / per_group);
  searching.arg(out).pointer(total.get()).integer(elements).state(at).integer(width).integer(elements / rows);
  searching.launch_elements(service.op, elements);
  return scope.done();
}

}  // namespace hp::ops
