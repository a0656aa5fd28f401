#include "ops/reduction.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/memory/scratch.h"
#include "ops/detail/complex_view.h"
#include "ops/detail/reduction_plan.h"

namespace hp::ops {
namespace {

// The kernels of one reduction rule in hardpoint.ops.reduction.
class Rule {
 public:
  explicit Rule(const std::string& name)
      : rows_name_("reduction:rows@" + name),
        columns_name_("reduction:columns@" + name),
        rows_(rows_name_.c_str(), {"T", "A", "R"}, {"INNER", "FIRST", "LAST"}),
        columns_(columns_name_.c_str(), {"T", "A", "R"}, {"INNER", "FIRST", "LAST"}) {}

  // Accumulates in `type`; `number` is the rule's `p`.
  bool reduce(const OpBinding& binding, Device& device, const View& out, const View& self, DType type, uint64_t dims,
              bool keepdim, double number = 0) {
    if (!binding.portable_allowed || !computable(out.dtype) || !computable(self.dtype)) return false;
    ReductionPlan plan;
    if (!plan_reduction(device, out, self, dims, keepdim, plan)) return false;
    const ReductionShape& g = plan.geometry;
    if (g.outputs == 0) return true;
    plan.set_number(number);
    if (g.parts == 1) return stage(binding, device, plan, out.data, out.dtype, self.data, self.dtype, type, true, true);
    const Scratch partial(device, g.outputs * g.parts * info(type).bytes);
    return stage(binding, device, plan, partial.get(), type, self.data, self.dtype, type, true, false) &&
           stage(binding, device, plan.merge(), out.data, out.dtype, partial.get(), type, type, false, true);
  }

 private:
  static bool computable(DType dtype) { return dtype != DType::kNone && !is_complex(dtype); }
  bool stage(const OpBinding& binding, Device& device, const ReductionPlan& plan, void* to, DType to_type,
             const void* from, DType from_type, DType type, bool first, bool last) {
    TemplateCall call(plan.columns ? columns_ : rows_, device, {from_type, type, to_type}, {plan.inner, first, last});
    return plan.launch(call.pointer(to).pointer(from), binding.op);
  }

  const std::string rows_name_, columns_name_;
  KernelTemplate rows_, columns_;
};

using Accumulator = DType(const View& out, const View& self);
DType total_of(const View& out, const View&) { return accumulator(real_dtype(out.dtype)); }
DType own_of(const View&, const View& self) {
  const DType d = self.dtype;
  return d == DType::kF16 || d == DType::kBF16 ? DType::kF32 : d == DType::kBool ? DType::kU8 : d;
}
DType truth_of(const View&, const View&) { return DType::kU8; }

// `by_parts`: complex tensors are reduced as real ones, the real and imaginary parts separately.
bool reduce(const OpBinding& binding, Device& device, Rule& rule, Accumulator* type, bool by_parts, const View& out,
            const View& self, uint64_t dims, bool keepdim) {
  const DimensionList list(dims);
  if (call_vendor(binding, device, {output(out), input(self), attribute_dims(list), attribute(keepdim)})) return true;
  if (by_parts && is_complex(out.dtype) != is_complex(self.dtype)) return false;
  PortableScope scope(binding);
  const DType accumulated = type(out, self);
  if (!by_parts) return rule.reduce(binding, device, out, self, accumulated, dims, keepdim) && scope.done();
  const ComplexAsReal to(out), from(self);
  // The first dimension of a single complex number is that of its parts, which stay apart.
  const uint64_t reduced = is_complex(self.dtype) && self.ndim == 0 ? 0 : dims;
  return rule.reduce(binding, device, to.view, from.view, accumulated, reduced, keepdim) && scope.done();
}

}  // namespace

#define HP_REDUCER(NAME, TYPE, BY_PARTS)                                                                \
  bool NAME(const OpBinding& binding, Device& device, const View& out, const View& self, uint64_t dims, \
            bool keepdim) {                                                                             \
    static Rule& rule = *new Rule(#NAME);                                                               \
    return reduce(binding, device, rule, TYPE, BY_PARTS, out, self, dims, keepdim);                     \
  }
HP_REDUCER(sum, total_of, true)
HP_REDUCER(mean, total_of, true)
HP_REDUCER(nansum, total_of, false)
HP_REDUCER(prod, total_of, false)
HP_REDUCER(amax, own_of, false)
HP_REDUCER(amin, own_of, false)
HP_REDUCER(any, truth_of, false)
HP_REDUCER(all, truth_of, false)
#undef HP_REDUCER

bool vector_norm(const OpBinding& binding, Device& device, const View& out, const View& self, double ord, uint64_t dims,
                 bool keepdim) {
  static Rule &zero = *new Rule("norm_0"), &one = *new Rule("norm_1"), &two = *new Rule("norm_2"),
              &other = *new Rule("norm_p"), &highest = *new Rule("norm_highest"), &lowest = *new Rule("norm_lowest");
  const DimensionList list(dims);
  if (call_vendor(binding, device,
                  {output(out), input(self), attribute(ord), attribute_dims(list), attribute(keepdim)})) {
    return true;
  }
  PortableScope scope(binding);
  Rule& rule = ord == 0           ? zero
               : ord == 1         ? one
               : ord == 2         ? two
               : !std::isinf(ord) ? other
               : ord > 0          ? highest
                                  : lowest;
  return rule.reduce(binding, device, out, self, accumulator(out.dtype), dims, keepdim, ord) && scope.done();
}

bool aminmax(const OpBinding& binding, Device& device, const View& smallest, const View& largest, const View& self,
             uint64_t dims, bool keepdim) {
  static Rule &low = *new Rule("amin"), &high = *new Rule("amax");
  const DimensionList list(dims);
  if (call_vendor(binding, device,
                  {output(smallest), output(largest), input(self), attribute_dims(list), attribute(keepdim)})) {
    return true;
  }
  PortableScope scope(binding);
  const DType type = own_of(smallest, self);
  return low.reduce(binding, device, smallest, self, type, dims, keepdim) &&
         high.reduce(binding, device, largest, self, type, dims, keepdim) && scope.done();
}

bool trace(const OpBinding& binding, Device& device, const View& out, const View& self) {
  static Rule& rule = *new Rule("sum");
  if (call_vendor(binding, device, {output(out), input(self)})) return true;
  PortableScope scope(binding);
  const int64_t length = std::min(self.sizes[0], self.sizes[1]), step = self.strides[0] + self.strides[1];
  const View diagonal{self.data, self.dtype, 1, &length, &step};
  const ComplexAsReal to(out), from(diagonal);
  return rule.reduce(binding, device, to.view, from.view, accumulator(to.view.dtype), 1, false) && scope.done();
}

bool equal(const OpBinding& binding, Device& device, const View& out, const View& self, const View& other) {
  static KernelTemplate kernels("equal:groups", {"T"});
  static Rule& rule = *new Rule("all");
  if (call_vendor(binding, device, {output(out), input(self), input(other)})) return true;
  if (!binding.portable_allowed || !self.defined()) return false;
  PortableScope scope(binding);
  const bool pairs = is_complex(self.dtype);
  TemplateCall call(kernels, device, {real_dtype(self.dtype)});
  if (!call.available()) return false;
  constexpr int64_t kPerGroup = 16384;
  const int64_t elements = self.numel() * (pairs ? 2 : 1), groups = ceil_div(elements, kPerGroup), step = 1;
  const Scratch flags(device, groups);
  call.pointer(flags.get()).arg(self).arg(other).integer(elements).integer(kPerGroup).launch(binding.op, groups);
  const View each{flags.get(), DType::kBool, 1, &groups, &step};
  return rule.reduce(binding, device, out, each, DType::kU8, 1, false) && scope.done();
}

bool hash_tensor(const OpBinding& binding, Device& device, const View& out, const View& self) {
  static KernelTemplate kernels("hash_tensor:rows", {"T"});
  if (call_vendor(binding, device, {output(out), input(self)})) return true;
  if (!binding.portable_allowed || !self.defined() || is_complex(self.dtype)) return false;
  TemplateCall call(kernels, device, {self.dtype});
  const int64_t rows = self.sizes[0], n = self.sizes[1], each = call.rows_per_group(n);
  return call.arg(out).arg(self).integer(rows).integer(n).integer(each).run(binding, ceil_div(rows, each));
}

}  // namespace hp::ops
