// Slicing of views by Paddle's rules for starts, ends and steps.
#pragma once

#include "dispatch/composition.h"

namespace hp::paddle_adapter {

class Slices {
 public:
  // Empty `steps` means 1 for every axis.
  Slices(std::vector<int64_t> axes, std::vector<int64_t> starts, std::vector<int64_t> ends, std::vector<int64_t> steps)
      : axes_(std::move(axes)), starts_(std::move(starts)), ends_(std::move(ends)), steps_(std::move(steps)) {
    if (steps_.empty()) steps_.assign(axes_.size(), 1);
  }

  // Narrows `view` to the slice and removes the `dropped` dimensions. False if the slices are malformed.
  bool apply(ShapedView& view, const std::vector<int64_t>& dropped) const;

  // Whether `tensor`, an output with the shape Paddle inferred, has the sizes of `slice`.
  bool fits(const ShapedView& slice, const DenseTensor& tensor) const;

 private:
  std::vector<int64_t> axes_, starts_, ends_, steps_;
};

}  // namespace hp::paddle_adapter
