#include "ops/indexing.h"

#include "ops/index_views.h"

namespace hp::paddle_adapter::ops {
namespace {

// Inputs: x, index.
bool supports_indexing(const Call& call) {
  return call.inputs_ready() && is_index(*call.input(1)) && call.input(0)->dims().size() <= kMaxKernelRank &&
         call.binding().can_serve();
}

// An axis given as a tensor is not known when Paddle infers the shape.
void resize_to_slices(Call& call) {
  if (call.kernel.attributes[0] != phi::AttributeType::SCALAR || !call.attr<phi::Scalar>(0).FromTensor()) return;
  const auto &x = call.input(0)->dims(), &index = call.input(1)->dims();
  const int64_t axis = wrap_dim(call.integer(0), x.size());
  std::vector<int64_t> sizes(x.Get(), x.Get() + axis);
  if (index.size() != 0) sizes.push_back(call.input(1)->numel());
  sizes.insert(sizes.end(), x.Get() + axis + 1, x.Get() + x.size());
  call.output(0)->Resize(common::make_ddim(sizes));
}

// Attribute: axis. The index may have any shape, which replaces that dimension in the output.
template <class Read>
bool slices(Call& call, Read read) {
  if (!supports_indexing(call) || call.input(0)->dims().size() == 0) return false;
  resize_to_slices(call);
  const View x = call.view_of(0), index = call.view_of(1), out = call.allocate(0);
  if (out.numel() == 0) return true;
  const int64_t dim = wrap_dim(call.integer(0), x.ndim);
  return read(flat_selection(out, x, dim, index.numel()), x, flat_index(index), dim);
}

// Negative indices count from the end, except in index_sample and embedding.

bool gather(Call& call) {
  return slices(call, [&](const View& out, const View& x, const View& index, int64_t dim) {
    return hp::ops::index(call.binding(), call.device, out, x, {index}, dim);
  });
}

bool index_select(Call& call) {
  return slices(call, [&](const View& out, const View& x, const View& index, int64_t dim) {
    return hp::ops::index_select(call.binding(), call.device, out, x, index, dim, true);
  });
}

bool gather_along(Call& call, int64_t axis, bool negative) {
  if (!supports_indexing(call) || call.input(0)->dims().size() != call.input(1)->dims().size()) return false;
  const View x = call.view_of(0), out = call.allocate(0);
  if (out.numel() == 0) return true;
  return hp::ops::gather(call.binding(), call.device, out, x, call.view_of(1), wrap_dim(axis, x.ndim), negative);
}
bool take_along_axis(Call& call) { return gather_along(call, call.integer(0), true); }
bool index_sample(Call& call) { return gather_along(call, 1, false); }

bool gather_nd(Call& call) {
  const auto& dims = call.input(1)->dims();
  if (!supports_indexing(call) || dims.size() == 0 || dims[dims.size() - 1] == 0 || call.input(0)->numel() == 0 ||
      call.output(0)->dims().size() >= kMaxKernelRank) {
    return false;
  }
  const View index = call.view_of(1), out = call.allocate(0);
  if (out.numel() == 0) return true;
  const CoordinateViews coordinates(index);
  return hp::ops::index(call.binding(), call.device, coordinates.selection_view(out, index), call.view_of(0),
                        coordinates.views, 0);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/indexing.inc"
