// Outputs that many additions go to.
#pragma once

#include <optional>

#include "../core/copy_views.h"
#include "../core/service.h"

namespace hp::ops {

// Where a kernel adds up: the output itself, or a stand-in in single precision for one of half precision.
class Sums {
 public:
  Sums(Device& device, const View& target) : view(target), target_(target) {
    if (accumulator(target.dtype) == target.dtype) return;
    scratch_.emplace(device, target.numel() * info(DType::kF32).bytes);
    view.data = scratch_->get();
    view.dtype = DType::kF32;
  }
  bool finish(const Service& service, Device& device) const {
    return !scratch_ || copy_portable(service.op, device, target_, view);
  }

  View view;

 private:
  const View target_;
  std::optional<Scratch> scratch_;
};

}  // namespace hp::ops
