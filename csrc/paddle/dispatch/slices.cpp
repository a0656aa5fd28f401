#include "dispatch/slices.h"

#include <algorithm>

namespace hp::paddle_adapter {

bool Slices::apply(ShapedView& view, const std::vector<int64_t>& dropped) const {
  if (starts_.size() != axes_.size() || ends_.size() != axes_.size() || steps_.size() != axes_.size()) return false;
  const int ndim = view.ndim();
  for (size_t k = 0; k < axes_.size(); ++k) {
    const int d = static_cast<int>(axes_[k] < 0 ? axes_[k] + ndim : axes_[k]);
    if (d < 0 || d >= ndim || steps_[k] == 0) return false;
    const int64_t size = view.size(d), step = steps_[k];
    int64_t first = starts_[k] < 0 ? starts_[k] + size : starts_[k];
    int64_t last = ends_[k] < 0 ? ends_[k] + size : ends_[k];
    // With a negative step, an end before the first element is -1, so that the slice includes that element.
    first = std::clamp<int64_t>(first, 0, step > 0 ? size : std::max<int64_t>(size - 1, 0));
    last = std::clamp<int64_t>(last, step > 0 ? 0 : -1, size);
    const int64_t span = step > 0 ? last - first : first - last, stride = step > 0 ? step : -step;
    view.narrow(d, first, span > 0 ? (span + stride - 1) / stride : 0, step);
  }
  std::vector<int64_t> removed;
  for (int64_t d : dropped) removed.push_back(d < 0 ? d + ndim : d);
  std::sort(removed.rbegin(), removed.rend());
  for (int64_t d : removed) {
    if (d < 0 || d >= view.ndim() || view.size(static_cast<int>(d)) != 1) return false;
    view.drop(static_cast<int>(d));
  }
  return true;
}

bool Slices::fits(const ShapedView& slice, const DenseTensor& tensor) const {
  const auto& dims = tensor.dims();
  return dims.size() == slice.ndim() && std::equal(dims.Get(), dims.Get() + dims.size(), slice.view().sizes);
}

}  // namespace hp::paddle_adapter
