// Helpers for kernels that read or write by index tensors.
#pragma once

#include "dispatch/composition.h"

namespace hp::paddle_adapter {

inline bool is_index(const DenseTensor& tensor) {
  return tensor.dtype() == phi::DataType::INT32 || tensor.dtype() == phi::DataType::INT64;
}

// The index tensor as one dimension.
inline ShapedView flat_index(const View& index) {
  const int64_t length[] = {index.numel()};
  return ShapedView(index.data, index.dtype, 1, length);
}

// `selected` holds `count` slices of `source` along `dim`, with the index tensor's shape in place of that dimension.
// Returns it, contiguous, with these dimensions joined into one.
inline ShapedView flat_selection(const View& selected, const View& source, int64_t dim, int64_t count) {
  std::array<int64_t, 16> sizes{};
  std::copy(source.sizes, source.sizes + source.ndim, sizes.begin());
  if (source.ndim != 0) sizes[dim] = count;
  return ShapedView(selected.data, selected.dtype, source.ndim, sizes.data());
}

// Splits an index tensor whose last dimension holds coordinates (gather_nd) into one view per coordinate.
class CoordinateViews {
 public:
  explicit CoordinateViews(const View& index) {
    const int last = index.ndim - 1;
    shaped_.reserve(index.sizes[last]);
    for (int64_t k = 0; k < index.sizes[last]; ++k) {
      ShapedView& coordinate = shaped_.emplace_back(index);
      coordinate.narrow(last, k, 1).drop(last);
      // Index kernels need at least one dimension.
      if (coordinate.ndim() == 0) coordinate.unsqueeze(0);
    }
    views.assign(shaped_.begin(), shaped_.end());
  }
  // `selected`, with the leading dimension of size 1 that a one-dimensional index tensor gets in `views`.
  ShapedView selection_view(const View& selected, const View& index) const {
    ShapedView result(selected);
    return index.ndim == 1 ? result.unsqueeze(0) : result;
  }
  std::vector<View> views;

 private:
  std::vector<ShapedView> shaped_;
};

}  // namespace hp::paddle_adapter
