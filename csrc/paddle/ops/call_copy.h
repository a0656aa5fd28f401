// The copy with which many kernels end.
#pragma once

#include "dispatch/composition.h"

namespace hp::paddle_adapter::ops {

// False if the device has no kernel for it.
inline bool copy_to(Call& call, const View& to, const View& from) {
  return copy(copy_op.on(call.device), call.device, to, from);
}

}  // namespace hp::paddle_adapter::ops
