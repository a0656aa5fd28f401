#include "reduce_plan.h"

#include <algorithm>
#include <cstring>

namespace hp::ops {
namespace {

// As in kernels/reduce.h.
constexpr int64_t kColumns = 256;

struct Dimension {
  int64_t size, in, out;
};

// Fastest first, neighbours joined; the number of dimensions that are left.
int coalesce(Dimension* dims, int count) {
  std::stable_sort(dims, dims + count, [](const Dimension& a, const Dimension& b) { return a.in < b.in; });
  int kept = 0;
  for (int d = 0; d < count; ++d) {
    Dimension* last = kept > 0 ? &dims[kept - 1] : nullptr;
    if (last != nullptr && last->in * last->size == dims[d].in && last->out * last->size == dims[d].out) {
      last->size *= dims[d].size;
    } else {
      dims[kept++] = dims[d];
    }
  }
  return kept;
}

int64_t strips(const ReduceGeometry& g) {
  return g.outputs / g.kept_size[0] * ((g.kept_size[0] + kColumns - 1) / kColumns);
}

// Enough parts to go round where there are few outputs, and none so long that a sum loses its accuracy.
int64_t choose_parts(const ReducePlan& plan) {
  constexpr int64_t kTasks = 64, kLongest = int64_t{1} << 22;
  const ReduceGeometry& g = plan.geometry;
  const int64_t tasks = plan.columns ? strips(g) : g.outputs, longest = g.count / kLongest + 1;
  const int64_t elements = g.count * (plan.columns ? std::min(g.kept_size[0], kColumns) : 1);
  if (tasks > kTasks / 2 || elements < 2 * 16384) return longest;
  return std::max(longest, std::min({kTasks / tasks, elements / 16384, g.count / 16}));
}

}  // namespace

bool plan_reduction(Device& device, const View& out, const View& self, uint64_t dims, bool keepdim, ReducePlan& plan) {
  if (self.ndim > 64) return false;
  Dimension reduced[64], kept[64];
  int num_reduced = 0, num_kept = 0, place = 0;
  ReduceGeometry& g = plan.geometry;
  for (int d = 0; d < self.ndim; ++d) {
    const int64_t size = self.sizes[d];
    if (dims >> d & 1) {
      if (keepdim) ++place;
      g.count *= size;
      if (size > 1) reduced[num_reduced++] = {size, self.strides[d], 0};
    } else {
      g.outputs *= size;
      if (size > 1) kept[num_kept++] = {size, self.strides[d], out.strides[place]};
      ++place;
    }
  }
  g.total = g.count;
  if (g.outputs == 0) return true;
  if (g.count == 0) num_reduced = 0;
  num_reduced = coalesce(reduced, num_reduced);
  num_kept = coalesce(kept, num_kept);
  if (num_reduced > kMaxDimensions || num_kept > kMaxDimensions) return false;
  if (num_reduced == 0) reduced[num_reduced++] = {1, 1, 0};
  for (int d = 0; d < num_reduced; ++d) {
    g.reduced_size[d] = reduced[d].size;
    g.reduced_stride[d] = reduced[d].in;
  }
  for (int d = 0; d < num_kept; ++d) {
    g.kept_size[d] = kept[d].size;
    g.kept_stride[d] = kept[d].in;
    g.out_stride[d] = kept[d].out;
  }
  g.reduced_dims = num_reduced;
  g.kept_dims = num_kept;
  if (num_kept > 0) {
    const bool outputs_side_by_side = g.count <= 1 || kept[0].in < reduced[0].in;
    // A few elements side by side fill no vector: there the other way is better, even with strides.
    if (device.plugin.compiler.group_size == 1) {
      plan.columns = outputs_side_by_side ? kept[0].size >= 16 || g.count < 64 : g.count < 48 && kept[0].size >= 32;
    } else {
      plan.columns = outputs_side_by_side && g.outputs >= kColumns;
    }
  }
  plan.inner = (plan.columns ? kept[0].in : reduced[0].in) == 1;
  g.parts = choose_parts(plan);
  g.part = (g.count + g.parts - 1) / g.parts;
  // Rounding up may leave the last parts empty.
  if (g.part > 0) g.parts = (g.count + g.part - 1) / g.part;
  return true;
}

void ReducePlan::set_number(double value) {
  const auto single = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &single, sizeof(bits));
  geometry.number_f32 = bits;
  std::memcpy(&geometry.number_f64, &value, sizeof(value));
}

ReducePlan ReducePlan::merge() const {
  ReducePlan next = *this;
  ReduceGeometry& g = next.geometry;
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

void ReducePlan::launch(TemplateCall& call, Operator& op) const {
  const ReduceGeometry& g = geometry;
  const int64_t tasks = (columns ? strips(g) : g.outputs) * g.parts;
  const int64_t elements = g.part * (columns ? std::min(g.kept_size[0], kColumns) : 1);
  const int64_t per_group = call.rows_per_group(elements);
  call.value(g).integer(per_group);
  call.launch(op, (tasks + per_group - 1) / per_group);
}

}  // namespace hp::ops
