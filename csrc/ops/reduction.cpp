#include "reduction.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "parts.h"
#include "reduce_plan.h"

namespace hp::ops {
namespace {

// The kernels of one rule of hardpoint.ops.reduction.
class Rule {
 public:
  explicit Rule(const std::string& name)
      : rows_name_("reduction:rows@" + name),
        columns_name_("reduction:columns@" + name),
        rows_(rows_name_.c_str(), {"T", "A", "R"}, {"INNER", "FIRST", "LAST"}),
        columns_(columns_name_.c_str(), {"T", "A", "R"}, {"INNER", "FIRST", "LAST"}) {}

  // Gathers in `type`; the number is the rule's `p`.
  bool reduce(const Service& service, Device& device, const View& out, const View& self, DType type, uint64_t dims,
              bool keepdim, double number = 0) {
    if (!service.has_compiler || !computable(out.dtype) || !computable(self.dtype)) return false;
    ReducePlan plan;
    if (!plan_reduction(device, out, self, dims, keepdim, plan)) return false;
    const ReduceGeometry& g = plan.geometry;
    if (g.outputs == 0) return true;
    plan.set_number(number);
    if (g.parts == 1) return stage(service, device, plan, out.data, out.dtype, self.data, self.dtype, type, true, true);
    const Scratch partial(device, g.outputs * g.parts * info(type).bytes);
    return stage(service, device, plan, partial.get(), type, self.data, self.dtype, type, true, false) &&
           stage(service, device, plan.merge(), out.data, out.dtype, partial.get(), type, type, false, true);
  }

 private:
  static bool computable(DType dtype) { return dtype != DType::kNone && !is_complex(dtype); }
  bool stage(const Service& service, Device& device, const ReducePlan& plan, void* to, DType to_type, const void* from,
             DType from_type, DType type, bool first, bool last) {
    TemplateCall call(plan.columns ? columns_ : rows_, device, {from_type, type, to_type}, {plan.inner, first, last});
    if (!call.available()) return false;
    call.pointer(to).pointer(from);
    plan.launch(call, service.op);
    return true;
  }

  const std::string rows_name_, columns_name_;
  TemplateKernels rows_, columns_;
};

// What each operator gathers in.
DType total_of(const View& out, const View&) { return accumulator(out.dtype); }
DType own_of(const View&, const View& self) {
  const DType d = self.dtype;
  return d == DType::kF16 || d == DType::kBF16 ? DType::kF32 : d == DType::kBool ? DType::kU8 : d;
}
DType truth_of(const View&, const View&) { return DType::kU8; }

}  // namespace

#define HP_REDUCER(NAME, TYPE)                                                                                        \
  bool NAME(const Service& service, Device& device, const View& out, const View& self, uint64_t dims, bool keepdim) { \
    static Rule& rule = *new Rule(#NAME);                                                                             \
    const DimensionList list(dims);                                                                                   \
    if (call_vendor(service, device, {output(out), input(self), attribute_dims(list), attribute(keepdim)}))           \
      return true;                                                                                                    \
    PortableScope scope(service);                                                                                     \
    return rule.reduce(service, device, out, self, TYPE(out, self), dims, keepdim) && scope.done();                   \
  }
// Of complex numbers, the parts are added up apart.
#define HP_SUM(NAME)                                                                                                  \
  bool NAME(const Service& service, Device& device, const View& out, const View& self, uint64_t dims, bool keepdim) { \
    static Rule& rule = *new Rule(#NAME);                                                                             \
    const DimensionList list(dims);                                                                                   \
    if (call_vendor(service, device, {output(out), input(self), attribute_dims(list), attribute(keepdim)}))           \
      return true;                                                                                                    \
    if (is_complex(out.dtype) != is_complex(self.dtype)) return false;                                                \
    PortableScope scope(service);                                                                                     \
    const Parts to(out), from(self);                                                                                  \
    /* The first dimension of a single complex number is that of its parts, which stay apart. */                      \
    const uint64_t reduced = is_complex(self.dtype) && self.ndim == 0 ? 0 : dims;                                     \
    return rule.reduce(service, device, to.view, from.view, accumulator(to.view.dtype), reduced, keepdim) &&          \
           scope.done();                                                                                              \
  }

HP_SUM(sum)
HP_SUM(mean)
#undef HP_SUM
HP_REDUCER(nansum, total_of)
HP_REDUCER(prod, total_of)
HP_REDUCER(amax, own_of)
HP_REDUCER(amin, own_of)
HP_REDUCER(any, truth_of)
HP_REDUCER(all, truth_of)
#undef HP_REDUCER

bool vector_norm(const Service& service, Device& device, const View& out, const View& self, double ord, uint64_t dims,
                 bool keepdim) {
  static Rule &zero = *new Rule("norm_0"), &one = *new Rule("norm_1"), &two = *new Rule("norm_2"),
              &other = *new Rule("norm_p"), &highest = *new Rule("norm_highest"), &lowest = *new Rule("norm_lowest");
  const DimensionList list(dims);
  if (call_vendor(service, device,
                  {output(out), input(self), attribute(ord), attribute_dims(list), attribute(keepdim)})) {
    return true;
  }
  PortableScope scope(service);
  Rule& rule = ord == 0           ? zero
               : ord == 1         ? one
               : ord == 2         ? two
               : !std::isinf(ord) ? other
               : ord > 0          ? highest
                                  : lowest;
  return rule.reduce(service, device, out, self, accumulator(out.dtype), dims, keepdim, ord) && scope.done();
}

bool aminmax(const Service& service, Device& device, const View& smallest, const View& largest, const View& self,
             uint64_t dims, bool keepdim) {
  static Rule &low = *new Rule("amin"), &high = *new Rule("amax");
  const DimensionList list(dims);
  if (call_vendor(service, device,
                  {output(smallest), output(largest), input(self), attribute_dims(list), attribute(keepdim)})) {
    return true;
  }
  PortableScope scope(service);
  const DType type = own_of(smallest, self);
  return low.reduce(service, device, smallest, self, type, dims, keepdim) &&
         high.reduce(service, device, largest, self, type, dims, keepdim) && scope.done();
}

bool trace(const Service& service, Device& device, const View& out, const View& self) {
  static Rule& rule = *new Rule("sum");
  if (call_vendor(service, device, {output(out), input(self)})) return true;
  PortableScope scope(service);
  const int64_t length = std::min(self.sizes[0], self.sizes[1]), step = self.strides[0] + self.strides[1];
  const View diagonal{self.data, self.dtype, 1, &length, &step};
  const Parts to(out), from(diagonal);
  return rule.reduce(service, device, to.view, from.view, accumulator(to.view.dtype), 1, false) && scope.done();
}

bool equal(const Service& service, Device& device, const View& out, const View& self, const View& other) {
  static TemplateKernels kernels("equal:groups", {"T"});
  static Rule& rule = *new Rule("all");
  if (call_vendor(service, device, {output(out), input(self), input(other)})) return true;
  if (!service.has_compiler || !self.defined()) return false;
  PortableScope scope(service);
  const bool pairs = is_complex(self.dtype);
  TemplateCall call(kernels, device, {pairs ? part_of(self.dtype) : self.dtype});
  if (!call.available()) return false;
  constexpr int64_t kPerGroup = 16384;
  const int64_t elements = self.numel() * (pairs ? 2 : 1), groups = (elements + kPerGroup - 1) / kPerGroup, step = 1;
  const Scratch flags(device, groups);
  call.pointer(flags.get()).arg(self).arg(other).integer(elements).integer(kPerGroup).launch(service.op, groups);
  const View each{flags.get(), DType::kBool, 1, &groups, &step};
  return rule.reduce(service, device, out, each, DType::kU8, 1, false) && scope.done();
}

}  // namespace hp::ops
