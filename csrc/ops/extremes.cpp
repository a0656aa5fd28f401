#include "extremes.h"

#include "reduce_plan.h"

namespace hp::ops {
namespace {

bool extreme(const Service& service, Device& device, const View& values, const View& places, const View& self,
             int64_t dim, bool keepdim, bool largest) {
  static TemplateKernels rows("extremes:rows", {"T", "A"}, {"INNER", "LARGEST", "VALUES"});
  static TemplateKernels columns("extremes:columns", {"T", "A"}, {"INNER", "LARGEST", "VALUES"});
  static TemplateKernels merge("extremes:merge", {"T", "A"}, {"INNER", "LARGEST", "VALUES"});
  if (!service.has_compiler || !self.defined() || is_complex(self.dtype)) return false;
  PortableScope scope(service);
  ReducePlan plan;
  if (!plan_reduction(device, places, self, uint64_t{1} << dim, keepdim, plan)) return false;
  const ReduceGeometry& g = plan.geometry;
  // A part's places are told in 32 bits.
  if (g.part > INT32_MAX) return false;
  const bool low = self.dtype == DType::kF16 || self.dtype == DType::kBF16;
  const DType type = low ? DType::kF32 : self.dtype == DType::kBool ? DType::kU8 : self.dtype;
  const bool wanted = values.defined(), last = g.parts == 1;
  TemplateCall call(plan.columns ? columns : rows, device, {self.dtype, type}, {plan.inner, largest, wanted});
  if (!call.available()) return false;
  const Scratch partial(device, last ? 0 : g.outputs * g.parts * info(DType::kI64).bytes);
  call.pointer(wanted ? values.data : self.data).pointer(last ? places.data : partial.get()).arg(self).integer(last);
  plan.launch(call, service.op);
  if (last) return scope.done();
  TemplateCall next(merge, device, {self.dtype, type}, {plan.inner, largest, wanted});
  if (!next.available()) return false;
  next.pointer(wanted ? values.data : self.data).arg(places).arg(self).pointer(partial.get());
  next.integer(g.parts).integer(plan.output_step()).integer(plan.part_step()).value(g);
  next.launch_elements(service.op, g.outputs);
  return scope.done();
}

bool place_of(const Service& service, Device& device, const View& places, const View& self, int64_t dim, bool keepdim,
              bool largest) {
  return call_vendor(service, device, {output(places), input(self), attribute(dim), attribute(keepdim)}) ||
         extreme(service, device, {}, places, self, dim, keepdim, largest);
}

bool value_of(const Service& service, Device& device, const View& values, const View& places, const View& self,
              int64_t dim, bool keepdim, bool largest) {
  return call_vendor(service, device,
                     {output(values), output(places), input(self), attribute(dim), attribute(keepdim)}) ||
         extreme(service, device, values, places, self, dim, keepdim, largest);
}

}  // namespace

bool argmax(const Service& service, Device& device, const View& places, const View& self, int64_t dim, bool keepdim) {
  return place_of(service, device, places, self, dim, keepdim, true);
}
bool argmin(const Service& service, Device& device, const View& places, const View& self, int64_t dim, bool keepdim) {
  return place_of(service, device, places, self, dim, keepdim, false);
}
bool max_dim(const Service& service, Device& device, const View& values, const View& places, const View& self,
             int64_t dim, bool keepdim) {
  return value_of(service, device, values, places, self, dim, keepdim, true);
}
bool min_dim(const Service& service, Device& device, const View& values, const View& places, const View& self,
             int64_t dim, bool keepdim) {
  return value_of(service, device, values, places, self, dim, keepdim, false);
}

}  // namespace hp::ops
