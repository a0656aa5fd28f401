// Paddle's collective callbacks (xccl), implemented with core's DeviceGroup.
#pragma once

#include <paddle/phi/backends/device_ext.h>

#include "core/memory/pinned_allocator.h"
#include "core/runtime/runtime.h"

namespace hp::paddle_adapter {

// Fills in the xccl callbacks of `table`, which must have the layout this adapter was compiled with. Keeps references
// to `runtime` and `pinned`: both must live until the process exits.
void fill_xccl(C_DeviceInterface& table, Runtime& runtime, PinnedAllocator& pinned);

}  // namespace hp::paddle_adapter
