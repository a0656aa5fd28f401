// What kernels that read or write by index share.
#pragma once

#include "parts.h"

namespace hp::paddle_adapter {

inline int64_t dimension_of(int64_t axis, const View& of) { return axis < 0 ? axis + of.ndim : axis; }

inline bool is_index(const DenseTensor& tensor) {
  return tensor.dtype() == phi::DataType::INT32 || tensor.dtype() == phi::DataType::INT64;
}

// Indices in a row, whatever their shape.
inline Shaped in_a_row(const View& index) {
  const int64_t length[] = {index.numel()};
  return Shaped(index.data, index.dtype, 1, length);
}

// A tensor that indices select slices of along `dim`: `selected` has their shape in its place, which becomes one
// dimension. Contiguous.
inline Shaped slices_of(const View& selected, const View& whole, int64_t dim, int64_t count) {
  std::array<int64_t, 16> sizes{};
  std::copy(whole.sizes, whole.sizes + whole.ndim, sizes.begin());
  if (whole.ndim != 0) sizes[dim] = count;
  return Shaped(selected.data, selected.dtype, whole.ndim, sizes.data());
}

// The last dimension of an index tensor holds coordinates: a view for each.
class Coordinates {
 public:
  explicit Coordinates(const View& index) {
    const int last = index.ndim - 1;
    parts_.reserve(index.sizes[last]);
    for (int64_t k = 0; k < index.sizes[last]; ++k) {
      Shaped& part = parts_.emplace_back(index);
      part.narrow(last, k, 1).drop(last);
      // A single set of coordinates is one of a row.
      if (part.ndim() == 0) part.unsqueeze(0);
    }
    views.assign(parts_.begin(), parts_.end());
  }
  // The tensor of what is selected, with a dimension for a single set of coordinates.
  Shaped of(const View& selected, const View& index) const {
    Shaped made(selected);
    return index.ndim == 1 ? made.unsqueeze(0) : made;
  }
  std::vector<View> views;

 private:
  std::vector<Shaped> parts_;
};

}  // namespace hp::paddle_adapter
