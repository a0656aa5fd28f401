// Writes by index, and gradients of reads by index. Negative indices count from the end, except in index_sample.
#include "ops/scatter.h"

#include <optional>

#include "ops/index_views.h"
#include "ops/indexing.h"

namespace hp::paddle_adapter::ops {
namespace {

using hp::ops::ScatterOp;

StandardOp index_add_op("index_add"), index_copy_op("index_copy"), scatter_op("scatter"), index_put_op("index_put"),
    index_select_op("index_select"), gather_op("gather"), index_op("index");

bool supports_scatter(const Call& call, int index) {
  return call.inputs_ready() && is_index(*call.input(index)) && call.input(index)->numel() != 0 &&
         copy_op.on(call.device).can_serve() && to_core(call.kernel.dtype) != DType::kNone;
}

// For gradients of reads: only the shape of the tensor that was read is used.
bool supports_grad(const Call& call, int index, int grad) {
  const DenseTensor &index_view = *call.input(index), &from = *call.input(grad);
  for (const DenseTensor* tensor : {&index_view, &from}) {
    if (!tensor->initialized() || !on_device(*tensor) || tensor->numel() == 0 ||
        tensor->dims().size() > kMaxKernelRank || !tensor->meta().is_contiguous()) {
      return false;
    }
  }
  return is_index(index_view) && copy_op.on(call.device).can_serve() && to_core(from.dtype()) != DType::kNone;
}

bool write_slices(Call& call, const View& out, const View& index, const View& values, int64_t dim, ScatterOp write) {
  const OpBinding& binding = (write == ScatterOp::kAdd ? index_add_op : index_copy_op).on(call.device);
  return hp::ops::index_write(binding, call.device, out, flat_index(index),
                              flat_selection(values, out, dim, index.numel()), dim, write, true);
}

// ---- Gradients of reads. Inputs: x, index, out_grad.

bool slices_grad(Call& call) {
  if (!supports_grad(call, 1, 2) || call.input(0)->dims().size() == 0 || call.input(0)->dims().size() > kMaxKernelRank)
    return false;
  const View out = call.allocate(0);
  const int64_t dim = wrap_dim(call.integer(0), out.ndim);
  return zero(call.device, out) && write_slices(call, out, call.view_of(1), call.view_of(2), dim, ScatterOp::kAdd) &&
         count_decomposed(call);
}
bool gather_grad(Call& call) { return slices_grad(call); }
bool index_select_grad(Call& call) { return slices_grad(call); }

bool along_grad(Call& call, int64_t axis, bool negative) {
  if (!supports_grad(call, 1, 2) || call.input(0)->dims().size() != call.input(1)->dims().size() ||
      call.input(0)->dims().size() > kMaxKernelRank) {
    return false;
  }
  const View out = call.allocate(0);
  return zero(call.device, out) &&
         hp::ops::scatter(scatter_op.on(call.device), call.device, out, call.view_of(1), call.view_of(2),
                          wrap_dim(axis, out.ndim), ScatterOp::kAdd, negative) &&
         count_decomposed(call);
}
bool take_along_axis_grad(Call& call) { return along_grad(call, call.integer(0), true); }
bool index_sample_grad(Call& call) { return along_grad(call, 1, false); }

bool has_coordinates(const DenseTensor& index, const DenseTensor& selected) {
  return index.dims().size() != 0 && index.dims()[index.dims().size() - 1] != 0 &&
         selected.dims().size() < kMaxKernelRank;
}
bool put_coordinates(Call& call, const View& out, const View& index, const View& values, ScatterOp write) {
  const CoordinateViews coordinates(index);
  return hp::ops::index_put(index_put_op.on(call.device), call.device, out, coordinates.selection_view(values, index),
                            coordinates.views, 0, write);
}

bool gather_nd_grad(Call& call) {
  if (!supports_grad(call, 1, 2) || !has_coordinates(*call.input(1), *call.input(2))) return false;
  const View out = call.allocate(0);
  return zero(call.device, out) && put_coordinates(call, out, call.view_of(1), call.view_of(2), ScatterOp::kAdd) &&
         count_decomposed(call);
}

// ---- put_along_axis. Inputs: x, index, value. Attributes: axis, reduce, include_self.

std::optional<ScatterOp> scatter_op_named(const std::string& name) {
  if (name == "assign") return ScatterOp::kSet;
  if (name == "add") return ScatterOp::kAdd;
  if (name == "multiply" || name == "mul") return ScatterOp::kMultiply;
  if (name == "amax") return ScatterOp::kMax;
  if (name == "amin") return ScatterOp::kMin;
  return std::nullopt;
}

bool put_along_axis(Call& call) {
  const std::optional<ScatterOp> write = scatter_op_named(call.attr<std::string>(1));
  const DenseTensor& x = *call.input(0);
  if (!supports_scatter(call, 1) || !write || (*write != ScatterOp::kSet && !call.attr<bool>(2)) ||
      x.dims().size() != call.input(1)->dims().size() || call.input(2)->dims() != call.input(1)->dims() ||
      x.dims().size() > kMaxKernelRank || is_complex(to_core(call.kernel.dtype))) {
    return false;
  }
  View out;
  return allocate_copy(call, *call.output(0), x, out) &&
         hp::ops::scatter(scatter_op.on(call.device), call.device, out, call.view_of(1), call.view_of(2),
                          wrap_dim(call.integer(0), out.ndim), *write, true) &&
         count_decomposed(call);
}

// Inputs: x, index, value, out, out_grad. Only for `assign` and `add`.
bool put_along_axis_grad(Call& call) {
  const std::string& reduce = call.attr<std::string>(1);
  const DenseTensor &index = *call.input(1), &grad = *call.input(4);
  const bool assigns = reduce == "assign";
  if (!supports_grad(call, 1, 4) || !(assigns || (reduce == "add" && call.attr<bool>(2))) ||
      grad.dims().size() != index.dims().size() || !is_float(to_core(call.kernel.dtype))) {
    return false;
  }
  const View from = view(grad), index_view = view(index);
  const int64_t dim = wrap_dim(call.integer(0), from.ndim);
  if (call.output(1) != nullptr) {
    // InferMeta gives this output the dtype of the index.
    call.context.Alloc(call.output(1), call.kernel.dtype);
    const View out = view(*call.output(1));
    if (!same_sizes(out, index_view) ||
        !hp::ops::gather(gather_op.on(call.device), call.device, out, from, index_view, dim, true)) {
      return false;
    }
  }
  if (call.output(0) != nullptr) {
    View out;
    if (!allocate_copy(call, *call.output(0), grad, out)) return false;
    if (assigns) {
      const Temporary zeros(call.device, out.dtype, index_view.ndim, index_view.sizes);
      if (!zero(call.device, zeros) || !hp::ops::scatter(scatter_op.on(call.device), call.device, out, index_view,
                                                         zeros, dim, ScatterOp::kSet, true)) {
        return false;
      }
    }
  }
  return count_decomposed(call);
}

// ---- scatter. Inputs: x, index, updates. Attribute: overwrite; if false, indexed rows are zeroed, then added to.

bool clear_slices(Call& call, const View& out, const View& index, int64_t dim) {
  std::array<int64_t, 16> sizes{};
  std::copy(out.sizes, out.sizes + out.ndim, sizes.begin());
  sizes[dim] = index.numel();
  const Temporary zeros(call.device, out.dtype, out.ndim, sizes.data());
  return zero(call.device, zeros) && write_slices(call, out, index, zeros, dim, ScatterOp::kSet);
}

bool scatter(Call& call) {
  const DenseTensor& x = *call.input(0);
  if (!supports_scatter(call, 1) || x.numel() == 0 || x.dims().size() == 0 || x.dims().size() > kMaxKernelRank ||
      call.input(2)->numel() != x.numel() / x.dims()[0] * call.input(1)->numel()) {
    return false;
  }
  const bool overwrite = call.attr<bool>(0);
  const View index = call.view_of(1);
  View out;
  return allocate_copy(call, *call.output(0), x, out) && (overwrite || clear_slices(call, out, index, 0)) &&
         write_slices(call, out, index, call.view_of(2), 0, overwrite ? ScatterOp::kSet : ScatterOp::kAdd) &&
         count_decomposed(call);
}

bool select_slices(Call& call, DenseTensor* output, const View& from, const View& index, int64_t dim) {
  if (output == nullptr) return true;
  const View out = call.allocate(*output);
  return hp::ops::index_select(index_select_op.on(call.device), call.device,
                               flat_selection(out, from, dim, index.numel()), from, flat_index(index), dim, true);
}

// Inputs: index, updates, out_grad.
bool scatter_grad(Call& call) {
  const DenseTensor &index = *call.input(0), &grad = *call.input(2);
  if (!supports_grad(call, 0, 2) || grad.dims().size() == 0) return false;
  const View rows = view(index), from = view(grad);
  if (!select_slices(call, call.output(1), from, rows, 0)) return false;
  View out;
  if (call.output(0) != nullptr &&
      (!allocate_copy(call, *call.output(0), grad, out) || !clear_slices(call, out, rows, 0))) {
    return false;
  }
  return count_decomposed(call);
}

// ---- scatter_nd_add. Inputs: x, index, updates.

bool scatter_nd_add(Call& call) {
  if (!supports_scatter(call, 1) || !has_coordinates(*call.input(1), *call.input(2))) return false;
  View out;
  return allocate_copy(call, *call.output(0), *call.input(0), out) &&
         put_coordinates(call, out, call.view_of(1), call.view_of(2), ScatterOp::kAdd) && count_decomposed(call);
}

// Inputs: index, updates, out_grad.
bool scatter_nd_add_grad(Call& call) {
  const DenseTensor &index = *call.input(0), &grad = *call.input(2);
  if (!supports_grad(call, 0, 2) || !has_coordinates(index, *call.input(1))) return false;
  if (call.output(1) != nullptr) {
    const View out = call.allocate(1), index_view = view(index);
    const CoordinateViews coordinates(index_view);
    if (!hp::ops::index(index_op.on(call.device), call.device, coordinates.selection_view(out, index_view), view(grad),
                        coordinates.views, 0))
      return false;
  }
  View out;
  if (call.output(0) != nullptr && !allocate_copy(call, *call.output(0), grad, out)) return false;
  return count_decomposed(call);
}

// ---- index_add. Inputs: x, index, add_value. Attribute: axis.

bool index_add(Call& call) {
  if (!supports_scatter(call, 1) || call.input(0)->dims().size() == 0 || call.input(0)->dims().size() > kMaxKernelRank)
    return false;
  View out;
  return allocate_copy(call, *call.output(0), *call.input(0), out) &&
         write_slices(call, out, call.view_of(1), call.view_of(2), wrap_dim(call.integer(0), out.ndim),
                      ScatterOp::kAdd) &&
         count_decomposed(call);
}
// Inputs: index, add_value, out_grad.
bool index_add_grad(Call& call) {
  const DenseTensor &index = *call.input(0), &grad = *call.input(2);
  if (!supports_grad(call, 0, 2) || grad.dims().size() == 0) return false;
  const View from = view(grad);
  View out;
  return select_slices(call, call.output(1), from, view(index), wrap_dim(call.integer(0), from.ndim)) &&
         (call.output(0) == nullptr || allocate_copy(call, *call.output(0), grad, out)) && count_decomposed(call);
}

// ---- index_put: index tensors for the first dimensions. Inputs: x, indices, value. Attribute: accumulate.

// Paddle's Python API broadcasts the index tensors to one shape; anything else goes to the CPU tier.
bool have_equal_shapes(List<const DenseTensor> indices) {
  for (const DenseTensor* index : indices) {
    if (!is_index(*index) || index->dtype() != indices[0]->dtype() || index->dims() != indices[0]->dims() ||
        index->numel() == 0 || index->dims().size() == 0 || !index->initialized() || !on_device(*index)) {
      return false;
    }
  }
  return indices.count != 0;
}
struct Selection {
  Selection(const View& x, List<const DenseTensor> indices) {
    for (const DenseTensor* index : indices) views.push_back(view(*index));
    for (int d = 0; d < views[0].ndim; ++d) sizes.push_back(views[0].sizes[d]);
    for (int d = indices.count; d < x.ndim; ++d) sizes.push_back(x.sizes[d]);
  }
  int ndim() const { return static_cast<int>(sizes.size()); }
  std::vector<View> views;
  std::vector<int64_t> sizes;
};

bool index_put(Call& call) {
  const DenseTensor &x = *call.input(0), &value = *call.input(2);
  if (!call.inputs_ready() || !have_equal_shapes(call.inputs(1)) || call.inputs(1).count > x.dims().size() ||
      x.numel() == 0 || !copy_op.on(call.device).can_serve() || x.dims().size() > kMaxKernelRank) {
    return false;
  }
  const Selection selection(view(x), call.inputs(1));
  if (selection.ndim() > kMaxKernelRank || value.dims().size() > selection.ndim()) return false;
  View out;
  if (!allocate_copy(call, *call.output(0), x, out)) return false;
  ShapedView values(view(value));
  values.expand(selection.ndim(), selection.sizes.data());
  const Temporary dense(call.device, out.dtype, selection.ndim(), selection.sizes.data());
  return copy(copy_op.on(call.device), call.device, dense, values) &&
         hp::ops::index_put(index_put_op.on(call.device), call.device, out, dense, selection.views, 0,
                            call.attr<bool>(0) ? ScatterOp::kAdd : ScatterOp::kSet) &&
         count_decomposed(call);
}

// Inputs: x, indices, value, out_grad.
bool index_put_grad(Call& call) {
  const DenseTensor& grad = *call.input(3);
  if (!grad.initialized() || !on_device(grad) || grad.numel() == 0 || !have_equal_shapes(call.inputs(1)) ||
      call.inputs(1).count > grad.dims().size() || !copy_op.on(call.device).can_serve() ||
      grad.dims().size() > kMaxKernelRank || !is_float(to_core(call.kernel.dtype))) {
    return false;
  }
  const View from = view(grad);
  const Selection selection(from, call.inputs(1));
  if (selection.ndim() > kMaxKernelRank) return false;
  const Temporary selected(call.device, from.dtype, selection.ndim(), selection.sizes.data());
  if (call.output(1) != nullptr &&
      !(hp::ops::index(index_op.on(call.device), call.device, selected, from, selection.views, 0) &&
        sum_to(call.device, call.allocate(1), selected))) {
    return false;
  }
  if (call.output(0) != nullptr) {
    View out;
    if (!allocate_copy(call, *call.output(0), grad, out)) return false;
    if (!call.attr<bool>(0) &&
        !(zero(call.device, selected) && hp::ops::index_put(index_put_op.on(call.device), call.device, out, selected,
                                                            selection.views, 0, ScatterOp::kSet))) {
      return false;
    }
  }
  return count_decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/scatter.inc"
