// Indexing with tensors and slices at once. Paddle describes it by strides: what is selected has, for each dimension,
// its stride in x, 0 where index tensors name the places; each of these counts in a stride of its own.
#include <algorithm>

#include "../../ops/indexing.h"
#include "../../ops/scatter.h"
#include "../indices.h"

namespace hp::paddle_adapter::ops {
namespace {

Step copying("copy"), reading("index"), writing("index_put");

// The dimensions that index tensors count in, one after another in a view of x, in the place that their own shape has
// in what is selected. Attributes from `first` on: input_dims, input_strides, index_dims, index_strides (in bytes),
// slice_offset (in bytes).
//
// x is contiguous. Of a view that is not, Paddle 3.3 hands over a copy that is, with strides of the view, which lead to
// other places of the copy, or beyond it. Where nothing but index tensors selects, x's own strides are known; elsewhere
// nothing is touched that is not x's.
struct Selection {
  Shaped whole;  // without data
  std::vector<View> indices;
  int first = 0;
  int64_t offset = 0;
  std::vector<int64_t> sizes;  // of what is selected

  bool read(const Call& call, int attribute) {
    const DenseTensor& x = *call.input(0);
    const auto given = call.inputs(1);
    const auto strides = call.integers(attribute + 1), places = call.integers(attribute + 2),
               steps = call.integers(attribute + 3);
    sizes = call.integers(attribute);
    if (given.count == 0 || x.numel() == 0 || to_core(x.dtype()) == DType::kNone) return false;
    const auto bytes = static_cast<int64_t>(phi::SizeOf(x.dtype()));
    offset = call.integer(attribute + 4);
    for (const DenseTensor* index : given) {
      if (!ready(index) || !is_index(*index) || index->numel() == 0 || index->dtype() != given[0]->dtype() ||
          index->dims() != given[0]->dims()) {
        return false;
      }
      indices.push_back(view(*index));
    }
    const int rank = indices[0].ndim, ndim = static_cast<int>(sizes.size()), count = given.count;
    while (first < ndim && strides[first] != 0) ++first;
    const int left = ndim - rank, total = left + count;
    if (rank == 0 || left < 0 || first > left || total > kMaxDimensions || ndim > kMaxDimensions ||
        static_cast<int>(steps.size()) < count) {
      return false;
    }
    std::array<int64_t, 16> in_whole{}, by{};
    for (int d = 0, from = 0; d < total; ++d) {
      if (d >= first && d < first + count) {
        in_whole[d] = places[d - first];
        by[d] = steps[d - first] / bytes;
        continue;
      }
      if (from == first) from += rank;
      if (strides[from] == 0) return false;
      in_whole[d] = sizes[from];
      by[d] = strides[from++];
    }
    for (int d = 0; d < rank; ++d) {
      if (strides[first + d] != 0 || sizes[first + d] != indices[0].sizes[d]) return false;
    }
    const int64_t* const of_x = x.dims().Get();
    if (offset == 0 && total == x.dims().size() && std::equal(of_x, of_x + total, in_whole.begin())) {
      std::array<int64_t, 16> own{};
      for (int64_t d = total - 1, step = 1; d >= 0; --d) own[d] = step, step *= of_x[d];
      // Several index tensors may have brought dimensions of one size into another order: the strides say which.
      if (count == 1 || !std::is_permutation(by.begin(), by.end(), own.begin())) by = own;
    }
    whole = Shaped(View{nullptr, to_core(x.dtype()), total, in_whole.data(), by.data()});
    int64_t lowest = offset / bytes, highest = lowest;
    for (int d = 0; d < total; ++d) (by[d] < 0 ? lowest : highest) += (in_whole[d] - 1) * by[d];
    if (lowest < 0 || highest >= x.numel()) {
      throw Error(HP_INVALID_ARGUMENT,
                  "Paddle names places outside of the tensor, as it does for a view that is not contiguous: "
                  "index a contiguous copy of the view");
    }
    return true;
  }
  Shaped of(const View& x) const {
    Shaped made = whole;
    made.set_data(static_cast<char*>(x.data) + offset);
    return made;
  }
};

// Inputs: x, index. Attributes: those of the selection, accumulate, is_combined.
bool index_elementwise_get(Call& call) {
  Selection selected;
  if (!call.plain() || !selected.read(call, 0)) return false;
  const View out = call.allocate(0);
  if (out.numel() == 0) return true;
  if (!std::equal(selected.sizes.begin(), selected.sizes.end(), out.sizes, out.sizes + out.ndim)) return false;
  return hp::ops::index(reading.on(call.device), call.device, out, selected.of(call.view_of(0)), selected.indices,
                        selected.first) &&
         decomposed(call);
}

// Inputs: x, of which only the sizes count, index, the gradient.
bool index_elementwise_get_grad(Call& call) {
  Selection selected;
  if (!ready(call.input(2)) || !is_float(to_core(call.kernel.dtype)) || !selected.read(call, 0)) return false;
  const View grad = call.view_of(2), out = call.allocate(0);
  if (grad.numel() != 0 &&
      !std::equal(selected.sizes.begin(), selected.sizes.end(), grad.sizes, grad.sizes + grad.ndim)) {
    return false;
  }
  return zero(call.device, out) &&
         (grad.numel() == 0 || hp::ops::index_put(writing.on(call.device), call.device, selected.of(out), grad,
                                                  selected.indices, selected.first, hp::ops::Write::kAdd)) &&
         decomposed(call);
}

// The output, with what the input holds: its memory, or a copy.
bool carried(Call& call, View& out) {
  const DenseTensor before = *call.input(0);
  out = call.allocate(0);
  return out.data == before.data() || copy(copying.on(call.device), call.device, out, view(before));
}

bool write(Call& call, const Selection& selected, const Temporary& values) {
  View out;
  return carried(call, out) &&
         hp::ops::index_put(writing.on(call.device), call.device, selected.of(out), values, selected.indices,
                            selected.first, hp::ops::Write::kSet) &&
         decomposed(call);
}

// Attributes: the value, and those of the selection.
bool index_elementwise_put(Call& call) {
  Selection selected;
  if (!call.plain() || !selected.read(call, 1) || !writing.on(call.device).has_compiler) return false;
  const Temporary values(call.device, to_core(call.kernel.dtype), static_cast<int>(selected.sizes.size()),
                         selected.sizes.data());
  return fill(call.device, values, call.attr<phi::Scalar>(0)) && write(call, selected, values);
}

// Inputs: x, index, the values, which are broadcast.
bool index_elementwise_put_with_tensor(Call& call) {
  Selection selected;
  if (!call.plain() || !selected.read(call, 0) || !writing.on(call.device).has_compiler) return false;
  const auto ndim = static_cast<int>(selected.sizes.size());
  Shaped given(call.view_of(2));
  if (given.ndim() > ndim) return false;
  for (int d = 0; d < given.ndim(); ++d) {
    if (given.size(d) != 1 && given.size(d) != selected.sizes[ndim - given.ndim() + d]) return false;
  }
  const Temporary values(call.device, to_core(call.kernel.dtype), ndim, selected.sizes.data());
  return copy(copying.on(call.device), call.device, values, given.expand(ndim, selected.sizes.data())) &&
         write(call, selected, values);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/elementwise_index.inc"
