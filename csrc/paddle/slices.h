// The parts of tensors that slices name, by Paddle's rules for where they begin and end.
#pragma once

#include "parts.h"

namespace hp::paddle_adapter {

class Slices {
 public:
  // Without steps, each is 1.
  Slices(std::vector<int64_t> axes, std::vector<int64_t> starts, std::vector<int64_t> ends, std::vector<int64_t> steps)
      : axes_(std::move(axes)), starts_(std::move(starts)), ends_(std::move(ends)), steps_(std::move(steps)) {
    if (steps_.empty()) steps_.assign(axes_.size(), 1);
  }

  // Narrows the view to the part, without the dropped dimensions. False for slices that are not well formed.
  bool apply(Shaped& view, const std::vector<int64_t>& dropped) const;

  // Whether an output that Paddle has settled has the sizes of the part.
  bool fits(const Shaped& part, const DenseTensor& tensor) const;

 private:
  std::vector<int64_t> axes_, starts_, ends_, steps_;
};

}  // namespace hp::paddle_adapter
