#include "ops/min_max.h"
#include "core/memory/scratch.h"

#include "ops/detail/reduction_plan.h"

namespace hp::ops {
namespace {

bool extreme(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
             int64_t dim, bool keepdim, bool largest) {
  static KernelTemplate rows("min_max:rows", {"T", "A"}, {"INNER", "LARGEST", "VALUES"});
  static KernelTemplate columns("min_max:columns", {"T", "A"}, {"INNER", "LARGEST", "VALUES"});
  static KernelTemplate merge("min_max:merge", {"T", "A"}, {"INNER", "LARGEST", "VALUES"});
  if (!binding.portable_allowed || !self.defined() || is_complex(self.dtype)) return false;
  PortableScope scope(binding);
  ReductionPlan plan;
  if (!plan_reduction(device, indices, self, uint64_t{1} << dim, keepdim, plan)) return false;
  const ReductionShape& g = plan.geometry;
  // Kernels hold indices within a part in 32 bits.
  if (g.part > INT32_MAX) return false;
  const bool low = self.dtype == DType::kF16 || self.dtype == DType::kBF16;
  const DType type = low ? DType::kF32 : self.dtype == DType::kBool ? DType::kU8 : self.dtype;
  const bool with_values = values.defined(), last = g.parts == 1;
  TemplateCall call(plan.columns ? columns : rows, device, {self.dtype, type}, {plan.inner, largest, with_values});
  if (!call.available()) return false;
  const Scratch partial(device, last ? 0 : g.outputs * g.parts * info(DType::kI64).bytes);
  call.pointer(with_values ? values.data : self.data)
      .pointer(last ? indices.data : partial.get())
      .arg(self)
      .integer(last);
  plan.launch(call, binding.op);
  if (last) return scope.done();
  TemplateCall next(merge, device, {self.dtype, type}, {plan.inner, largest, with_values});
  next.pointer(with_values ? values.data : self.data).arg(indices).arg(self).pointer(partial.get());
  next.integer(g.parts).integer(plan.output_step()).integer(plan.part_step()).value(g);
  return next.launch_elements(binding.op, g.outputs) && scope.done();
}

bool arg_extreme(const OpBinding& binding, Device& device, const View& indices, const View& self, int64_t dim,
                 bool keepdim, bool largest) {
  return call_vendor(binding, device, {output(indices), input(self), attribute(dim), attribute(keepdim)}) ||
         extreme(binding, device, {}, indices, self, dim, keepdim, largest);
}

bool extreme_dim(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
                 int64_t dim, bool keepdim, bool largest) {
  return call_vendor(binding, device,
                     {output(values), output(indices), input(self), attribute(dim), attribute(keepdim)}) ||
         extreme(binding, device, values, indices, self, dim, keepdim, largest);
}

}  // namespace

bool argmax(const OpBinding& binding, Device& device, const View& indices, const View& self, int64_t dim,
            bool keepdim) {
  return arg_extreme(binding, device, indices, self, dim, keepdim, true);
}
bool argmin(const OpBinding& binding, Device& device, const View& indices, const View& self, int64_t dim,
            bool keepdim) {
  return arg_extreme(binding, device, indices, self, dim, keepdim, false);
}
bool max_dim(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
             int64_t dim, bool keepdim) {
  return extreme_dim(binding, device, values, indices, self, dim, keepdim, true);
}
bool min_dim(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
             int64_t dim, bool keepdim) {
  return extreme_dim(binding, device, values, indices, self, dim, keepdim, false);
}

}  // namespace hp::ops
