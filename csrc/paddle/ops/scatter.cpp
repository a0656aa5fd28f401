// Writing by index. Indices are in the range that Paddle documents; others are not written.
#include "../../ops/scatter.h"

#include <optional>

#include "../../ops/indexing.h"
#include "../indices.h"

namespace hp::paddle_adapter::ops {
namespace {

using hp::ops::Write;

Step copying("copy"), index_add_step("index_add"), index_copy_step("index_copy"), scatter_step("scatter"),
    index_put_step("index_put"), selecting("index_select"), gathering("gather"), indexing("index");

bool takes(const Call& call, int index) {
  return call.plain() && is_index(*call.input(index)) && call.input(index)->numel() != 0 &&
         copying.on(call.device).able() && to_core(call.kernel.dtype) != DType::kNone;
}

// Of a gradient, the tensor that was read from is only a shape.
bool takes_grad(const Call& call, int index, int grad) {
  const DenseTensor &places = *call.input(index), &from = *call.input(grad);
  for (const DenseTensor* tensor : {&places, &from}) {
    if (!tensor->initialized() || !on_device(*tensor) || tensor->numel() == 0 ||
        tensor->dims().size() > kMaxDimensions || !tensor->meta().is_contiguous()) {
      return false;
    }
  }
  return is_index(places) && copying.on(call.device).able() && to_core(from.dtype()) != DType::kNone;
}

// The output with what the input has, if it is not the input itself.
bool carried(Call& call, DenseTensor& wanted, const DenseTensor& x, View& out) {
  const DenseTensor before = x;
  out = call.allocate(wanted);
  return out.data == before.data() || copy(copying.on(call.device), call.device, out, view(before));
}

bool write_slices(Call& call, const View& out, const View& index, const View& values, int64_t dim, Write write) {
  const Service& service = (write == Write::kAdd ? index_add_step : index_copy_step).on(call.device);
  return hp::ops::index_write(service, call.device, out, in_a_row(index), slices_of(values, out, dim, index.numel()),
                              dim, write, false);
}

// ---- The gradients of reading. Inputs: x, index, the gradient.

bool slices_grad(Call& call) {
  if (!takes_grad(call, 1, 2) || call.input(0)->dims().size() == 0 || call.input(0)->dims().size() > kMaxDimensions)
    return false;
  const View out = call.allocate(0);
  const int64_t dim = dimension_of(call.integer(0), out);
  return zero(call.device, out) && write_slices(call, out, call.view_of(1), call.view_of(2), dim, Write::kAdd) &&
         decomposed(call);
}
bool gather_grad(Call& call) { return slices_grad(call); }
bool index_select_grad(Call& call) { return slices_grad(call); }

bool along_grad(Call& call, int64_t axis) {
  if (!takes_grad(call, 1, 2) || call.input(0)->dims().size() != call.input(1)->dims().size() ||
      call.input(0)->dims().size() > kMaxDimensions) {
    return false;
  }
  const View out = call.allocate(0);
  return zero(call.device, out) &&
         hp::ops::scatter(scatter_step.on(call.device), call.device, out, call.view_of(1), call.view_of(2),
                          dimension_of(axis, out), Write::kAdd) &&
         decomposed(call);
}
bool take_along_axis_grad(Call& call) { return along_grad(call, call.integer(0)); }
bool index_sample_grad(Call& call) { return along_grad(call, 1); }

bool has_coordinates(const DenseTensor& index, const DenseTensor& selected) {
  return index.dims().size() != 0 && index.dims()[index.dims().size() - 1] != 0 &&
         selected.dims().size() < kMaxDimensions;
}
bool put(Call& call, const View& out, const View& index, const View& values, Write write) {
  const Coordinates at(index);
  return hp::ops::index_put(index_put_step.on(call.device), call.device, out, at.of(values, index), at.views, 0, write);
}

bool gather_nd_grad(Call& call) {
  if (!takes_grad(call, 1, 2) || !has_coordinates(*call.input(1), *call.input(2))) return false;
  const View out = call.allocate(0);
  return zero(call.device, out) && put(call, out, call.view_of(1), call.view_of(2), Write::kAdd) && decomposed(call);
}

// ---- Elements along a dimension. Inputs: x, index, value. Attributes: axis, reduce, include_self.

std::optional<Write> write_named(const std::string& name) {
  if (name == "assign") return Write::kSet;
  if (name == "add") return Write::kAdd;
  if (name == "multiply" || name == "mul") return Write::kMultiply;
  if (name == "amax") return Write::kMax;
  if (name == "amin") return Write::kMin;
  return std::nullopt;
}

bool put_along_axis(Call& call) {
  const std::optional<Write> write = write_named(call.attr<std::string>(1));
  const DenseTensor& x = *call.input(0);
  if (!takes(call, 1) || !write || (*write != Write::kSet && !call.attr<bool>(2)) ||
      x.dims().size() != call.input(1)->dims().size() || call.input(2)->dims() != call.input(1)->dims() ||
      x.dims().size() > kMaxDimensions || is_complex(to_core(call.kernel.dtype))) {
    return false;
  }
  View out;
  return carried(call, *call.output(0), x, out) &&
         hp::ops::scatter(scatter_step.on(call.device), call.device, out, call.view_of(1), call.view_of(2),
                          dimension_of(call.integer(0), out), *write) &&
         decomposed(call);
}

// Inputs: x, index, value, out, the gradient. Of numbers that are set or added.
bool put_along_axis_grad(Call& call) {
  const std::string& reduce = call.attr<std::string>(1);
  const DenseTensor &index = *call.input(1), &grad = *call.input(4);
  const bool sets = reduce == "assign";
  if (!takes_grad(call, 1, 4) || !(sets || (reduce == "add" && call.attr<bool>(2))) ||
      grad.dims().size() != index.dims().size() || !is_float(to_core(call.kernel.dtype))) {
    return false;
  }
  const View from = view(grad), places = view(index);
  const int64_t dim = dimension_of(call.integer(0), from);
  if (call.output(1) != nullptr) {
    // Paddle's shape rule takes the dtype of the index for this one.
    call.context.Alloc(call.output(1), call.kernel.dtype);
    const View out = view(*call.output(1));
    if (!same_sizes(out, places) || !hp::ops::gather(gathering.on(call.device), call.device, out, from, places, dim)) {
      return false;
    }
  }
  if (call.output(0) != nullptr) {
    View out;
    if (!carried(call, *call.output(0), grad, out)) return false;
    if (sets) {
      const Temporary nothing(call.device, out.dtype, places.ndim, places.sizes);
      if (!zero(call.device, nothing) ||
          !hp::ops::scatter(scatter_step.on(call.device), call.device, out, places, nothing, dim, Write::kSet)) {
        return false;
      }
    }
  }
  return decomposed(call);
}

// ---- Rows. Inputs: x, index, updates. Attribute: overwrite; without it, rows that are named begin at zero.

bool clear_slices(Call& call, const View& out, const View& index, int64_t dim) {
  std::array<int64_t, 16> sizes{};
  std::copy(out.sizes, out.sizes + out.ndim, sizes.begin());
  sizes[dim] = index.numel();
  const Temporary nothing(call.device, out.dtype, out.ndim, sizes.data());
  return zero(call.device, nothing) && write_slices(call, out, index, nothing, dim, Write::kSet);
}

bool scatter(Call& call) {
  const DenseTensor& x = *call.input(0);
  if (!takes(call, 1) || x.numel() == 0 || x.dims().size() == 0 || x.dims().size() > kMaxDimensions ||
      call.input(2)->numel() != x.numel() / x.dims()[0] * call.input(1)->numel()) {
    return false;
  }
  const bool overwrite = call.attr<bool>(0);
  const View index = call.view_of(1);
  View out;
  return carried(call, *call.output(0), x, out) && (overwrite || clear_slices(call, out, index, 0)) &&
         write_slices(call, out, index, call.view_of(2), 0, overwrite ? Write::kSet : Write::kAdd) && decomposed(call);
}

bool select_slices(Call& call, DenseTensor* wanted, const View& from, const View& index, int64_t dim) {
  if (wanted == nullptr) return true;
  const View out = call.allocate(*wanted);
  return hp::ops::index_select(selecting.on(call.device), call.device, slices_of(out, from, dim, index.numel()), from,
                               in_a_row(index), dim);
}

// Inputs: index, updates, the gradient.
bool scatter_grad(Call& call) {
  const DenseTensor &index = *call.input(0), &grad = *call.input(2);
  if (!takes_grad(call, 0, 2) || grad.dims().size() == 0) return false;
  const View rows = view(index), from = view(grad);
  if (!select_slices(call, call.output(1), from, rows, 0)) return false;
  View out;
  if (call.output(0) != nullptr && (!carried(call, *call.output(0), grad, out) || !clear_slices(call, out, rows, 0))) {
    return false;
  }
  return decomposed(call);
}

// ---- Sums at coordinates. Inputs: x, index, updates.

bool scatter_nd_add(Call& call) {
  if (!takes(call, 1) || !has_coordinates(*call.input(1), *call.input(2))) return false;
  View out;
  return carried(call, *call.output(0), *call.input(0), out) &&
         put(call, out, call.view_of(1), call.view_of(2), Write::kAdd) && decomposed(call);
}

// Inputs: index, updates, the gradient.
bool scatter_nd_add_grad(Call& call) {
  const DenseTensor &index = *call.input(0), &grad = *call.input(2);
  if (!takes_grad(call, 0, 2) || !has_coordinates(index, *call.input(1))) return false;
  if (call.output(1) != nullptr) {
    const View out = call.allocate(1), places = view(index);
    const Coordinates at(places);
    if (!hp::ops::index(indexing.on(call.device), call.device, at.of(out, places), view(grad), at.views, 0))
      return false;
  }
  View out;
  if (call.output(0) != nullptr && !carried(call, *call.output(0), grad, out)) return false;
  return decomposed(call);
}

// ---- Sums of slices. Inputs: x, index, add_value. Attribute: axis.

bool index_add(Call& call) {
  if (!takes(call, 1) || call.input(0)->dims().size() == 0 || call.input(0)->dims().size() > kMaxDimensions)
    return false;
  View out;
  return carried(call, *call.output(0), *call.input(0), out) &&
         write_slices(call, out, call.view_of(1), call.view_of(2), dimension_of(call.integer(0), out), Write::kAdd) &&
         decomposed(call);
}
// Inputs: index, add_value, the gradient.
bool index_add_grad(Call& call) {
  const DenseTensor &index = *call.input(0), &grad = *call.input(2);
  if (!takes_grad(call, 0, 2) || grad.dims().size() == 0) return false;
  const View from = view(grad);
  View out;
  return select_slices(call, call.output(1), from, view(index), dimension_of(call.integer(0), from)) &&
         (call.output(0) == nullptr || carried(call, *call.output(0), grad, out)) && decomposed(call);
}

// ---- Index tensors for the first dimensions. Inputs: x, indices, value. Attribute: accumulate.

// All of one shape, as Paddle's Python side makes them; anything else goes to the CPU tier.
bool alike(List<const DenseTensor> indices) {
  for (const DenseTensor* index : indices) {
    if (!is_index(*index) || index->dtype() != indices[0]->dtype() || index->dims() != indices[0]->dims() ||
        index->numel() == 0 || index->dims().size() == 0 || !index->initialized() || !on_device(*index)) {
      return false;
    }
  }
  return indices.count != 0;
}
struct Indexed {
  Indexed(const View& x, List<const DenseTensor> indices) {
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
  if (!call.plain() || !alike(call.inputs(1)) || call.inputs(1).count > x.dims().size() || x.numel() == 0 ||
      !copying.on(call.device).able() || x.dims().size() > kMaxDimensions) {
    return false;
  }
  const Indexed at(view(x), call.inputs(1));
  if (at.ndim() > kMaxDimensions || value.dims().size() > at.ndim()) return false;
  View out;
  if (!carried(call, *call.output(0), x, out)) return false;
  Shaped values(view(value));
  values.expand(at.ndim(), at.sizes.data());
  const Temporary dense(call.device, out.dtype, at.ndim(), at.sizes.data());
  return copy(copying.on(call.device), call.device, dense, values) &&
         hp::ops::index_put(index_put_step.on(call.device), call.device, out, dense, at.views, 0,
                            call.attr<bool>(0) ? Write::kAdd : Write::kSet) &&
         decomposed(call);
}

// Inputs: x, indices, value, the gradient.
bool index_put_grad(Call& call) {
  const DenseTensor& grad = *call.input(3);
  if (!grad.initialized() || !on_device(grad) || grad.numel() == 0 || !alike(call.inputs(1)) ||
      call.inputs(1).count > grad.dims().size() || !copying.on(call.device).able() ||
      grad.dims().size() > kMaxDimensions || !is_float(to_core(call.kernel.dtype))) {
    return false;
  }
  const View from = view(grad);
  const Indexed at(from, call.inputs(1));
  if (at.ndim() > kMaxDimensions) return false;
  const Temporary part(call.device, from.dtype, at.ndim(), at.sizes.data());
  if (call.output(1) != nullptr && !(hp::ops::index(indexing.on(call.device), call.device, part, from, at.views, 0) &&
                                     sum_to(call.device, call.allocate(1), part))) {
    return false;
  }
  if (call.output(0) != nullptr) {
    View out;
    if (!carried(call, *call.output(0), grad, out)) return false;
    if (!call.attr<bool>(0) &&
        !(zero(call.device, part) &&
          hp::ops::index_put(index_put_step.on(call.device), call.device, out, part, at.views, 0, Write::kSet))) {
      return false;
    }
  }
  return decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/scatter.inc"
