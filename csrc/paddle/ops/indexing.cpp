#include "../../ops/indexing.h"

#include "../indices.h"

namespace hp::paddle_adapter::ops {
namespace {

// Inputs: x, index.
bool takes(const Call& call) {
  return call.plain() && is_index(*call.input(1)) && call.input(0)->dims().size() <= kMaxDimensions &&
         call.service().able();
}

// Attribute: the dimension. The index has any shape, which takes the place of that dimension.
bool gather(Call& call) {
  if (!takes(call) || call.input(0)->dims().size() == 0) return false;
  const View x = call.view_of(0), index = call.view_of(1), out = call.allocate(0);
  if (out.numel() == 0) return true;
  const int64_t dim = dimension_of(call.integer(0), x);
  return hp::ops::index_select(call.service(), call.device, slices_of(out, x, dim, index.numel()), x, in_a_row(index),
                               dim);
}
bool index_select(Call& call) { return gather(call); }

bool gather_along(Call& call, int64_t axis) {
  if (!takes(call) || call.input(0)->dims().size() != call.input(1)->dims().size()) return false;
  const View x = call.view_of(0), out = call.allocate(0);
  if (out.numel() == 0) return true;
  return hp::ops::gather(call.service(), call.device, out, x, call.view_of(1), dimension_of(axis, x));
}
bool take_along_axis(Call& call) { return gather_along(call, call.integer(0)); }
bool index_sample(Call& call) { return gather_along(call, 1); }

bool gather_nd(Call& call) {
  const auto& dims = call.input(1)->dims();
  if (!takes(call) || dims.size() == 0 || dims[dims.size() - 1] == 0 || call.input(0)->numel() == 0 ||
      call.output(0)->dims().size() >= kMaxDimensions) {
    return false;
  }
  const View index = call.view_of(1), out = call.allocate(0);
  if (out.numel() == 0) return true;
  const Coordinates at(index);
  return hp::ops::index(call.service(), call.device, at.of(out, index), call.view_of(0), at.views, 0);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/indexing.inc"
