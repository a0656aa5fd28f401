#include "ops/distance.h"

#include <cmath>

#include "core/dispatch/template_call.h"

namespace hp::ops {
namespace {

int norm_of(double p) { return p == 0 ? 0 : p == 1 ? 1 : p == 2 ? 2 : std::isinf(p) ? 3 : 4; }

bool can_measure(const OpBinding& binding, const View& self) {
  return binding.portable_allowed && (self.dtype == DType::kF32 || self.dtype == DType::kF64);
}

bool forward(const OpBinding& binding, Device& device, const View& out, const View& a, const View& b, double p,
             bool pairs) {
  static KernelTemplate kernels("distance:forward", {"T"}, {"NORM", "PAIRS"});
  if (!can_measure(binding, a)) return false;
  TemplateCall call(kernels, device, {a.dtype}, {norm_of(p), pairs});
  const int64_t m = a.sizes[a.ndim - 1], all = out.numel(), group = device.group_size();
  const int64_t each = group == 1 ? call.rows_per_group(m) : group;
  call.arg(out).arg(a).arg(b).integer(all).integer(a.sizes[a.ndim - 2]).integer(b.sizes[b.ndim - 2]).integer(m);
  return call.real(p, a.dtype).integer(each).run(binding, ceil_div(all, each));
}

bool backward(const OpBinding& binding, Device& device, const View& out, const View& grad, const View& a, const View& b,
              const View& distances, double p, bool pairs) {
  static KernelTemplate kernels("distance:backward", {"T"}, {"NORM", "PAIRS"});
  if (!can_measure(binding, a)) return false;
  TemplateCall call(kernels, device, {a.dtype}, {norm_of(p), pairs});
  const int64_t m = a.sizes[a.ndim - 1], all = a.numel() / m, columns = b.sizes[b.ndim - 2];
  const int64_t each = call.rows_per_group(m * columns);
  call.arg(out).arg(grad).arg(a).arg(b).arg(distances).integer(all).integer(a.sizes[a.ndim - 2]).integer(columns);
  return call.integer(m).real(p, a.dtype).integer(each).run(binding, ceil_div(all, each));
}

}  // namespace

bool cdist(const OpBinding& binding, Device& device, const View& out, const View& x1, const View& x2, double p) {
  return call_vendor(binding, device, {output(out), input(x1), input(x2), attribute(p)}) ||
         forward(binding, device, out, x1, x2, p, false);
}
bool cdist_backward(const OpBinding& binding, Device& device, const View& out, const View& grad, const View& x1,
                    const View& x2, const View& distances, double p) {
  return call_vendor(binding, device,
                     {output(out), input(grad), input(x1), input(x2), input(distances), attribute(p)}) ||
         backward(binding, device, out, grad, x1, x2, distances, p, false);
}
bool pdist(const OpBinding& binding, Device& device, const View& out, const View& self, double p) {
  return call_vendor(binding, device, {output(out), input(self), attribute(p)}) ||
         forward(binding, device, out, self, self, p, true);
}
bool pdist_backward(const OpBinding& binding, Device& device, const View& out, const View& grad, const View& self,
                    const View& distances, double p) {
  return call_vendor(binding, device, {output(out), input(grad), input(self), input(distances), attribute(p)}) ||
         backward(binding, device, out, grad, self, self, distances, p, true);
}

}  // namespace hp::ops
