// Indexing with tensors and slices at once. Paddle passes the shape of the selection and, for each of its dimensions,
// the stride in x, which is 0 for the dimensions of the index tensors; each index tensor has its own stride in x.
#include <algorithm>

#include "ops/index_views.h"
#include "ops/indexing.h"
#include "ops/scatter.h"

namespace hp::paddle_adapter::ops {
namespace {

StandardOp index_op("index"), index_put_op("index_put");

// A selection in the terms of the operators `index` and `index_put`: a view of x in which the indexed dimensions are
// adjacent, starting at `first`, where the selection has the dimensions of the index tensors.
//
// x is contiguous. For a non-contiguous x, Paddle 3.3 passes a contiguous copy, but with the strides of the original,
// which address other elements of the copy or lie outside of it. If only index tensors select, the copy's strides are
// known and used instead. Otherwise the bounds are checked, so that no memory outside of x is accessed.
struct Selection {
  ShapedView base;  // the view of x, without data
  std::vector<View> indices;
  int first = 0;
  int64_t offset = 0;          // in bytes
  std::vector<int64_t> sizes;  // the shape of the selection

  // Attributes from `attribute` on: input_dims, input_strides, index_dims, index_strides (in bytes), slice_offset (in
  // bytes). False if not supported.
  bool read(const Call& call, int attribute) {
    const DenseTensor& x = *call.input(0);
    const auto index_tensors = call.inputs(1);
    const auto strides = call.integers(attribute + 1), index_sizes = call.integers(attribute + 2),
               index_strides = call.integers(attribute + 3);
    sizes = call.integers(attribute);
    if (index_tensors.count == 0 || x.numel() == 0 || to_core(x.dtype()) == DType::kNone) return false;
    const auto bytes = static_cast<int64_t>(phi::SizeOf(x.dtype()));
    offset = call.integer(attribute + 4);
    for (const DenseTensor* index : index_tensors) {
      if (!is_ready(index) || !is_index(*index) || index->numel() == 0 || index->dtype() != index_tensors[0]->dtype() ||
          index->dims() != index_tensors[0]->dims()) {
        return false;
      }
      indices.push_back(view(*index));
    }
    const int rank = indices[0].ndim, ndim = static_cast<int>(sizes.size()), count = index_tensors.count;
    while (first < ndim && strides[first] != 0) ++first;
    const int left = ndim - rank, total = left + count;
    if (rank == 0 || left < 0 || first > left || total > kMaxKernelRank || ndim > kMaxKernelRank ||
        static_cast<int>(index_strides.size()) < count) {
      return false;
    }
    std::array<int64_t, 16> base_sizes{}, base_strides{};
    for (int d = 0, from = 0; d < total; ++d) {
      if (d >= first && d < first + count) {
        base_sizes[d] = index_sizes[d - first];
        base_strides[d] = index_strides[d - first] / bytes;
        continue;
      }
      if (from == first) from += rank;
      if (strides[from] == 0) return false;
      base_sizes[d] = sizes[from];
      base_strides[d] = strides[from++];
    }
    for (int d = 0; d < rank; ++d) {
      if (strides[first + d] != 0 || sizes[first + d] != indices[0].sizes[d]) return false;
    }
    const int64_t* const x_sizes = x.dims().Get();
    if (offset == 0 && total == x.dims().size() && std::equal(x_sizes, x_sizes + total, base_sizes.begin())) {
      std::array<int64_t, 16> contiguous{};
      for (int64_t d = total - 1, step = 1; d >= 0; --d) contiguous[d] = step, step *= x_sizes[d];
      // With several index tensors, dimensions of equal size may be permuted: then Paddle's strides are right.
      if (count == 1 || !std::is_permutation(base_strides.begin(), base_strides.end(), contiguous.begin())) {
        base_strides = contiguous;
      }
    }
    base = ShapedView(View{nullptr, to_core(x.dtype()), total, base_sizes.data(), base_strides.data()});
    int64_t lowest = offset / bytes, highest = lowest;
    for (int d = 0; d < total; ++d) (base_strides[d] < 0 ? lowest : highest) += (base_sizes[d] - 1) * base_strides[d];
    if (lowest < 0 || highest >= x.numel()) {
      throw Error(HP_INVALID_ARGUMENT,
                  "Paddle passed strides that reach outside of the tensor, as Paddle 3.3 does for a non-contiguous "
                  "view: index a contiguous copy of it, x.contiguous()");
    }
    return true;
  }
  ShapedView view_in(const View& x) const {
    ShapedView result = base;
    result.set_data(static_cast<char*>(x.data) + offset);
    return result;
  }
};

// Inputs: x, index. Attributes: those of Selection, accumulate, is_combined.
bool index_elementwise_get(Call& call) {
  Selection selected;
  if (!call.inputs_ready() || !selected.read(call, 0)) return false;
  const View out = call.allocate(0);
  if (out.numel() == 0) return true;
  if (!std::equal(selected.sizes.begin(), selected.sizes.end(), out.sizes, out.sizes + out.ndim)) return false;
  return hp::ops::index(index_op.on(call.device), call.device, out, selected.view_in(call.view_of(0)), selected.indices,
                        selected.first) &&
         count_decomposed(call);
}

// Inputs: x (only its shape is used), index, out_grad.
bool index_elementwise_get_grad(Call& call) {
  Selection selected;
  if (!is_ready(call.input(2)) || !is_float(to_core(call.kernel.dtype)) || !selected.read(call, 0)) return false;
  const View grad = call.view_of(2), out = call.allocate(0);
  if (grad.numel() != 0 &&
      !std::equal(selected.sizes.begin(), selected.sizes.end(), grad.sizes, grad.sizes + grad.ndim)) {
    return false;
  }
  return zero(call.device, out) &&
         (grad.numel() == 0 || hp::ops::index_put(index_put_op.on(call.device), call.device, selected.view_in(out),
                                                  grad, selected.indices, selected.first, hp::ops::ScatterOp::kAdd)) &&
         count_decomposed(call);
}

bool write(Call& call, const Selection& selected, const Temporary& values) {
  View out;
  return allocate_copy(call, *call.output(0), *call.input(0), out) &&
         (values.view().numel() == 0 ||
          hp::ops::index_put(index_put_op.on(call.device), call.device, selected.view_in(out), values, selected.indices,
                             selected.first, hp::ops::ScatterOp::kSet)) &&
         count_decomposed(call);
}

// Attributes: value, then those of Selection.
bool index_elementwise_put(Call& call) {
  Selection selected;
  if (!call.inputs_ready() || !selected.read(call, 1) || !index_put_op.on(call.device).portable_allowed) return false;
  const Temporary values(call.device, to_core(call.kernel.dtype), static_cast<int>(selected.sizes.size()),
                         selected.sizes.data());
  return fill(call.device, values, call.attr<phi::Scalar>(0)) && write(call, selected, values);
}

// Inputs: x, index, value (broadcast to the selection).
bool index_elementwise_put_with_tensor(Call& call) {
  Selection selected;
  if (!call.inputs_ready() || !selected.read(call, 0) || !index_put_op.on(call.device).portable_allowed) return false;
  const auto ndim = static_cast<int>(selected.sizes.size());
  ShapedView index_tensors(call.view_of(2));
  if (index_tensors.ndim() > ndim) return false;
  for (int d = 0; d < index_tensors.ndim(); ++d) {
    if (index_tensors.size(d) != 1 && index_tensors.size(d) != selected.sizes[ndim - index_tensors.ndim() + d])
      return false;
  }
  const Temporary values(call.device, to_core(call.kernel.dtype), ndim, selected.sizes.data());
  return copy(copy_op.on(call.device), call.device, values, index_tensors.expand(ndim, selected.sizes.data())) &&
         write(call, selected, values);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/elementwise_index.inc"
