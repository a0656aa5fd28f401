#include "moments.h"

#include <algorithm>

#include "reduce_plan.h"

namespace hp::ops {
namespace {

bool moments(const Service& service, Device& device, const View& out, const View& mean, const View& self, uint64_t dims,
             double correction, bool keepdim, bool root) {
  static TemplateKernels rows("moments:rows", {"T", "A", "R"}, {"INNER", "SQRT", "MEAN"});
  static TemplateKernels columns("moments:columns", {"T", "A", "R"}, {"INNER", "SQRT", "MEAN"});
  static TemplateKernels merge("moments:merge", {"T", "A", "R"}, {"INNER", "SQRT", "MEAN"});
  if (!service.has_compiler || !is_float(self.dtype) || !is_float(out.dtype)) return false;
  PortableScope scope(service);
  ReducePlan plan;
  if (!plan_reduction(device, out, self, dims, keepdim, plan)) return false;
  const ReduceGeometry& g = plan.geometry;
  if (g.outputs == 0) return scope.done();
  plan.set_number(std::max(0.0, static_cast<double>(g.count) - correction));
  const DType type = accumulator(self.dtype);
  const bool both = mean.defined(), last = g.parts == 1;
  TemplateCall call(plan.columns ? columns : rows, device, {self.dtype, type, out.dtype}, {plan.inner, root, both});
  if (!call.available()) return false;
  const int64_t bytes = last ? 0 : g.outputs * g.parts * info(type).bytes;
  const Scratch means(device, bytes), sums(device, bytes);
  void* const centre = both ? mean.data : out.data;
  call.arg(out).pointer(centre);
  call.pointer(last ? out.data : means.get()).pointer(last ? out.data : sums.get()).arg(self).integer(last);
  plan.launch(call, service.op);
  if (last) return scope.done();
  TemplateCall next(merge, device, {self.dtype, type, out.dtype}, {plan.inner, root, both});
  if (!next.available()) return false;
  next.arg(out).pointer(centre).pointer(means.get()).pointer(sums.get());
  next.integer(plan.output_step()).integer(plan.part_step()).value(g);
  next.launch_elements(service.op, g.outputs);
  return scope.done();
}

bool spread(const Service& service, Device& device, const View& out, const View& self, uint64_t dims, double correction,
            bool keepdim, bool root) {
  const DimensionList list(dims);
  return call_vendor(service, device,
                     {output(out), input(self), attribute_dims(list), attribute(correction), attribute(keepdim)}) ||
         moments(service, device, out, {}, self, dims, correction, keepdim, root);
}

bool spread_and_mean(const Service& service, Device& device, const View& out, const View& mean, const View& self,
                     uint64_t dims, double correction, bool keepdim, bool root) {
  const DimensionList list(dims);
  return call_vendor(service, device,
                     {output(out), output(mean), input(self), attribute_dims(list), attribute(correction),
                      attribute(keepdim)}) ||
         moments(service, device, out, mean, self, dims, correction, keepdim, root);
}

}  // namespace

bool var(const Service& service, Device& device, const View& out, const View& self, uint64_t dims, double correction,
         bool keepdim) {
  return spread(service, device, out, self, dims, correction, keepdim, false);
}
bool std(const Service& service, Device& device, const View& out, const View& self, uint64_t dims, double correction,
         bool keepdim) {
  return spread(service, device, out, self, dims, correction, keepdim, true);
}
bool var_mean(const Service& service, Device& device, const View& out, const View& mean, const View& self,
              uint64_t dims, double correction, bool keepdim) {
  return spread_and_mean(service, device, out, mean, self, dims, correction, keepdim, false);
}
bool std_mean(const Service& service, Device& device, const View& out, const View& mean, const View& self,
              uint64_t dims, double correction, bool keepdim) {
  return spread_and_mean(service, device, out, mean, self, dims, correction, keepdim, true);
}

}  // namespace hp::ops
