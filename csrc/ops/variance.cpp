#include "ops/variance.h"
#include "core/memory/scratch.h"

#include <algorithm>

#include "ops/detail/reduction_plan.h"

namespace hp::ops {
namespace {

bool moments(const OpBinding& binding, Device& device, const View& out, const View& mean, const View& self,
             uint64_t dims, double correction, bool keepdim, bool root) {
  static KernelTemplate rows("variance:rows", {"T", "A", "R"}, {"INNER", "SQRT", "MEAN"});
  static KernelTemplate columns("variance:columns", {"T", "A", "R"}, {"INNER", "SQRT", "MEAN"});
  static KernelTemplate merge("variance:merge", {"T", "A", "R"}, {"INNER", "SQRT", "MEAN"});
  if (!binding.portable_allowed || !is_float(self.dtype) || !is_float(out.dtype)) return false;
  PortableScope scope(binding);
  ReductionPlan plan;
  if (!plan_reduction(device, out, self, dims, keepdim, plan)) return false;
  const ReductionShape& g = plan.geometry;
  if (g.outputs == 0) return scope.done();
  plan.set_number(std::max(0.0, static_cast<double>(g.count) - correction));
  const DType type = accumulator(self.dtype);
  const bool both = mean.defined(), last = g.parts == 1;
  TemplateCall call(plan.columns ? columns : rows, device, {self.dtype, type, out.dtype}, {plan.inner, root, both});
  if (!call.available()) return false;
  const int64_t bytes = last ? 0 : g.outputs * g.parts * info(type).bytes;
  const Scratch means(device, bytes), sums(device, bytes);
  void* const center = both ? mean.data : out.data;
  call.arg(out).pointer(center);
  call.pointer(last ? out.data : means.get()).pointer(last ? out.data : sums.get()).arg(self).integer(last);
  plan.launch(call, binding.op);
  if (last) return scope.done();
  TemplateCall next(merge, device, {self.dtype, type, out.dtype}, {plan.inner, root, both});
  next.arg(out).pointer(center).pointer(means.get()).pointer(sums.get());
  next.integer(plan.output_step()).integer(plan.part_step()).value(g);
  return next.launch_elements(binding.op, g.outputs) && scope.done();
}

bool spread(const OpBinding& binding, Device& device, const View& out, const View& self, uint64_t dims,
            double correction, bool keepdim, bool root) {
  const DimensionList list(dims);
  return call_vendor(binding, device,
                     {output(out), input(self), attribute_dims(list), attribute(correction), attribute(keepdim)}) ||
         moments(binding, device, out, {}, self, dims, correction, keepdim, root);
}

bool spread_and_mean(const OpBinding& binding, Device& device, const View& out, const View& mean, const View& self,
                     uint64_t dims, double correction, bool keepdim, bool root) {
  const DimensionList list(dims);
  return call_vendor(binding, device,
                     {output(out), output(mean), input(self), attribute_dims(list), attribute(correction),
                      attribute(keepdim)}) ||
         moments(binding, device, out, mean, self, dims, correction, keepdim, root);
}

}  // namespace

bool var(const OpBinding& binding, Device& device, const View& out, const View& self, uint64_t dims, double correction,
         bool keepdim) {
  return spread(binding, device, out, self, dims, correction, keepdim, false);
}
bool std(const OpBinding& binding, Device& device, const View& out, const View& self, uint64_t dims, double correction,
         bool keepdim) {
  return spread(binding, device, out, self, dims, correction, keepdim, true);
}
bool var_mean(const OpBinding& binding, Device& device, const View& out, const View& mean, const View& self,
              uint64_t dims, double correction, bool keepdim) {
  return spread_and_mean(binding, device, out, mean, self, dims, correction, keepdim, false);
}
bool std_mean(const OpBinding& binding, Device& device, const View& out, const View& mean, const View& self,
              uint64_t dims, double correction, bool keepdim) {
  return spread_and_mean(binding, device, out, mean, self, dims, correction, keepdim, true);
}

}  // namespace hp::ops
