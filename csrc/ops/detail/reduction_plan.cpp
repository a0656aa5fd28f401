#include "ops/detail/reduction_plan.h"

#include <algorithm>
#include <cstring>

#include "core/tensor/collapsed_dims.h"

namespace hp::ops {
namespace {

// Shared with kernels/headers/reduction.h.
constexpr int64_t kPlanColumns = 256;

enum { kSource, kReduced };

int64_t strips(const ReductionShape& g) { return g.outputs / g.kept_size[0] * ceil_div(g.kept_size[0], kPlanColumns); }

// Enough parts to occupy the device when there are few outputs, and none so long that a sum loses accuracy. A device
// with many work-items per group runs hundreds of groups at once.
int64_t choose_parts(const Device& device, const ReductionPlan& plan) {
  constexpr int64_t kLongest = int64_t{1} << 22;
  const int64_t enough = device.group_size() == 1 ? 64 : 2048;
  const ReductionShape& g = plan.geometry;
  const int64_t tasks = plan.columns ? strips(g) : g.outputs, longest = g.count / kLongest + 1;
  const int64_t elements = g.count * (plan.columns ? std::min(g.kept_size[0], kPlanColumns) : 1);
  if (tasks > enough / 2 || elements < 2 * 16384) return longest;
  return std::max(longest, std::min({enough / tasks, elements / 16384, g.count / 16}));
}

}  // namespace

bool plan_reduction(Device& device, const View& out, const View& self, uint64_t dims, bool keepdim,
                    ReductionPlan& plan) {
  if (self.ndim > 64) return false;
  CollapsedDims<2> reduced, kept;
  int out_dim = out.ndim;
  ReductionShape& g = plan.geometry;
  for (int d = self.ndim - 1; d >= 0; --d) {
    const int64_t size = self.sizes[d];
    if (dims >> d & 1) {
      if (keepdim) --out_dim;
      g.count *= size;
      reduced.add(size, {self.strides[d], 0});
    } else {
      g.outputs *= size;
      kept.add(size, {self.strides[d], out.strides[--out_dim]});
    }
  }
  g.total = g.count;
  if (g.outputs == 0) return true;
  if (g.count == 0) reduced.clear();
  reduced.sort(kSource);
  reduced.finish(1);
  kept.sort(kSource);
  if (reduced.count() > kMaxKernelRank || kept.count() > kMaxKernelRank) return false;
  for (int d = 0; d < reduced.count(); ++d) {
    g.reduced_size[d] = reduced[d].size;
    g.reduced_stride[d] = reduced[d].stride[kSource];
  }
  for (int d = 0; d < kept.count(); ++d) {
    g.kept_size[d] = kept[d].size;
    g.kept_stride[d] = kept[d].stride[kSource];
    g.out_stride[d] = kept[d].stride[kReduced];
  }
  g.reduced_dims = reduced.count();
  g.kept_dims = kept.count();
  if (kept.count() > 0) {
    const int64_t side_by_side = kept[0].size;
    const bool outputs_side_by_side = g.count <= 1 || kept[0].stride[kSource] < reduced[0].stride[kSource];
    // Few contiguous elements do not fill a vector: then the other direction is faster, even with strides.
    if (device.group_size() == 1) {
      plan.columns = outputs_side_by_side ? side_by_side >= 16 || g.count < 64 : g.count < 48 && side_by_side >= 32;
    } else {
      plan.columns = outputs_side_by_side && g.outputs >= kPlanColumns;
    }
  }
  plan.inner = (plan.columns ? kept : reduced)[0].stride[kSource] == 1;
  g.parts = choose_parts(device, plan);
  g.part = ceil_div(g.count, g.parts);
  // Rounding up may leave trailing parts empty: drop them.
  if (g.part > 0) g.parts = ceil_div(g.count, g.part);
  return true;
}

void ReductionPlan::set_number(double value) {
  const auto single = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &single, sizeof(bits));
  geometry.number_f32 = bits;
  std::memcpy(&geometry.number_f64, &value, sizeof(value));
}

ReductionPlan ReductionPlan::merge() const {
  ReductionPlan next = *this;
  ReductionShape& g = next.geometry;
  g.reduced_dims = 1;
  next.inner = true;
  g.count = g.part = g.reduced_size[0] = geometry.parts;
  g.reduced_stride[0] = part_step();
  g.parts = 1;
  int64_t step = output_step();
  for (int d = 0; d < g.kept_dims; ++d) {
    g.kept_stride[d] = step;
    step *= g.kept_size[d];
  }
  return next;
}

bool ReductionPlan::launch(TemplateCall& call, Operator& op) const {
  const ReductionShape& g = geometry;
  const int64_t tasks = (columns ? strips(g) : g.outputs) * g.parts;
  const int64_t elements = g.part * (columns ? std::min(g.kept_size[0], kPlanColumns) : 1);
  const int64_t per_group = call.rows_per_group(elements);
  return call.value(g).integer(per_group).launch(op, ceil_div(tasks, per_group));
}

}  // namespace hp::ops
