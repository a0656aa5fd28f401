// float32 accumulation buffers for 16-bit outputs.
#pragma once

#include <optional>

#include "core/dispatch/vendor_call.h"
#include "core/memory/scratch.h"
#include "core/tensor/copy_views.h"

namespace hp::ops {

// The output itself, or a float32 buffer if it is a 16-bit float. finish() copies the buffer to the output.
class AccumulationBuffer {
 public:
  AccumulationBuffer(Device& device, const View& target) : view(target), target_(target) {
    if (accumulator(target.dtype) == target.dtype) return;
    scratch_.emplace(device, target.numel() * info(DType::kF32).bytes);
    view.data = scratch_->get();
    view.dtype = DType::kF32;
  }
  bool finish(const OpBinding& binding, Device& device) const {
    return !scratch_ || copy_portable(binding.op, device, target_, view);
  }

  View view;

 private:
  const View target_;
  std::optional<Scratch> scratch_;
};

}  // namespace hp::ops
