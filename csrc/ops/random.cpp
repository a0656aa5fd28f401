#include "ops/random.h"

#include <cmath>

#include "core/dispatch/template_call.h"
#include "core/memory/scratch.h"

namespace hp::ops {
namespace {

// A probability in units of 2^-32.
int64_t scaled_probability(double p) { return std::llrint(p * 4294967296.0); }

bool fill_by_vendor(const OpBinding& binding, Device& device, const View& out, const RandomFill& fill,
                    PhiloxState state) {
  const VendorArgument result = output(out), seed = seed_of(state), offset = offset_of(state);
  switch (fill.distribution) {
    case Distribution::kExponential:
    case Distribution::kGeometric:
    case Distribution::kBernoulli:
      return call_vendor(binding, device, {result, seed, offset, attribute(fill.a)});
    case Distribution::kInteger:
      return call_vendor(binding, device,
                         {result, seed, offset, attribute(static_cast<int64_t>(fill.range)), attribute(fill.low)});
    default:
      return call_vendor(binding, device, {result, seed, offset, attribute(fill.a), attribute(fill.b)});
  }
}

bool sample(KernelTemplate& kernels, const OpBinding& binding, Device& device, const View& out, const View& parameter,
            const View& second, PhiloxState state) {
  if (!binding.portable_allowed || !is_float(out.dtype)) return false;
  TemplateCall call(kernels, device, {out.dtype});
  call.arg(out).arg(parameter);
  if (second.defined()) call.arg(second);
  const int64_t elements = out.numel();
  return call.integer(elements).state(state).run_elements(binding, elements);
}

}  // namespace

bool RandomFill::wide(DType out) const {
  if (distribution == Distribution::kInteger) return range == 0 || range > UINT32_MAX;
  return distribution <= Distribution::kCauchy && out == DType::kF64;
}

uint64_t RandomFill::blocks(DType out, int64_t elements) const {
  return wide(out) ? static_cast<uint64_t>(elements + 1) / 2 : blocks_for_32bit(elements);
}

bool random_fill(const OpBinding& binding, Device& device, const View& out, const RandomFill& fill, PhiloxState state) {
  if (fill_by_vendor(binding, device, out, fill, state)) return true;
  static KernelTemplate kernels("random:fill", {"T"}, {"DIST", "WIDE"});
  if (!binding.portable_allowed || !out.defined() || is_complex(out.dtype)) return false;
  TemplateCall call(kernels, device, {out.dtype}, {static_cast<int>(fill.distribution), fill.wide(out.dtype)});
  const double b = fill.distribution == Distribution::kGeometric ? std::log1p(-fill.a) : fill.b;
  const int64_t range =
      fill.distribution == Distribution::kBernoulli ? scaled_probability(fill.a) : static_cast<int64_t>(fill.range);
  const int64_t elements = out.numel();
  call.arg(out).integer(elements).state(state).real(fill.a).real(b).integer(range).integer(fill.low);
  return call.run_elements(binding, elements);
}

bool bernoulli_tensor(const OpBinding& binding, Device& device, const View& out, const View& p, PhiloxState state) {
  if (call_vendor(binding, device, {output(out), input(p), seed_of(state), offset_of(state)})) return true;
  static KernelTemplate kernels("random:choose", {"T", "P"});
  if (!binding.portable_allowed || !out.defined() || is_complex(out.dtype) || !is_float(p.dtype)) return false;
  TemplateCall call(kernels, device, {out.dtype, p.dtype});
  const int64_t elements = out.numel();
  return call.arg(out).arg(p).integer(elements).state(state).run_elements(binding, elements);
}

bool dropout(const OpBinding& binding, Device& device, const View& out, const View& mask, const View& input, double p,
             PhiloxState state) {
  if (call_vendor(binding, device,
                  {output(out), output(mask), hp::input(input), seed_of(state), offset_of(state), attribute(p)})) {
    return true;
  }
  static KernelTemplate kernels("random:dropout", {"T"});
  if (!binding.portable_allowed || !is_float(out.dtype)) return false;
  TemplateCall call(kernels, device, {out.dtype});
  const int64_t elements = out.numel();
  call.arg(out).arg(mask).arg(input).integer(elements).state(state).integer(scaled_probability(1 - p));
  return call.real(p == 1 ? 0 : 1 / (1 - p)).run_elements(binding, elements);
}

bool dropout_backward(const OpBinding& binding, Device& device, const View& out, const View& grad, const View& mask,
                      double scale) {
  if (call_vendor(binding, device, {output(out), input(grad), input(mask), attribute(scale)})) return true;
  static KernelTemplate kernels("random:dropout_backward", {"T"});
  if (!binding.portable_allowed || !is_float(out.dtype)) return false;
  TemplateCall call(kernels, device, {out.dtype});
  const int64_t elements = out.numel();
  return call.arg(out).arg(grad).arg(mask).integer(elements).real(scale).run_elements(binding, elements);
}

bool rrelu_with_noise(const OpBinding& binding, Device& device, const View& out, const View& noise, const View& self,
                      double lower, double upper, PhiloxState state) {
  if (call_vendor(binding, device,
                  {output(out), output(noise), input(self), seed_of(state), offset_of(state), attribute(lower),
                   attribute(upper)})) {
    return true;
  }
  static KernelTemplate kernels("random:rrelu", {"T"}, {"WIDE"});
  if (!binding.portable_allowed || !is_float(out.dtype)) return false;
  TemplateCall call(kernels, device, {out.dtype}, {out.dtype == DType::kF64});
  const int64_t elements = out.numel();
  call.arg(out).arg(noise).arg(self).integer(elements).state(state).real(lower).real(upper);
  return call.run_elements(binding, elements);
}

bool standard_gamma(const OpBinding& binding, Device& device, const View& out, const View& shape, PhiloxState state) {
  if (call_vendor(binding, device, {output(out), input(shape), seed_of(state), offset_of(state)})) return true;
  static KernelTemplate kernels("random:gamma", {"T"});
  return sample(kernels, binding, device, out, shape, {}, state);
}

bool poisson(const OpBinding& binding, Device& device, const View& out, const View& rate, PhiloxState state) {
  if (call_vendor(binding, device, {output(out), input(rate), seed_of(state), offset_of(state)})) return true;
  static KernelTemplate kernels("random:poisson", {"T"});
  return sample(kernels, binding, device, out, rate, {}, state);
}

bool binomial(const OpBinding& binding, Device& device, const View& out, const View& count, const View& prob,
              PhiloxState state) {
  if (call_vendor(binding, device, {output(out), input(count), input(prob), seed_of(state), offset_of(state)}))
    return true;
  static KernelTemplate kernels("random:binomial", {"T"});
  return sample(kernels, binding, device, out, count, prob, state);
}

bool multinomial(const OpBinding& binding, Device& device, const View& out, const View& weights, PhiloxState state) {
  if (call_vendor(binding, device, {output(out), input(weights), seed_of(state), offset_of(state)})) return true;
  static KernelTemplate totals("random:totals", {"T"}), search("random:search", {"T"});
  if (!binding.portable_allowed || !is_float(weights.dtype)) return false;
  PortableScope scope(binding);
  const DType sum = accumulator(weights.dtype);
  TemplateCall adding(totals, device, {weights.dtype}), searching(search, device, {sum});
  if (!adding.available() || !searching.available()) return false;
  const int64_t width = weights.sizes[weights.ndim - 1], rows = weights.numel() / width, elements = out.numel();
  const Scratch total(device, rows * width * info(sum).bytes);
  const int64_t per_group = adding.rows_per_group(width);
  adding.pointer(total.get()).arg(weights).integer(rows).integer(width).integer(per_group);
  adding.launch(binding.op, ceil_div(rows, per_group));
  searching.arg(out).pointer(total.get()).integer(elements).state(state).integer(width).integer(elements / rows);
  searching.launch_elements(binding.op, elements);
  return scope.done();
}

}  // namespace hp::ops
