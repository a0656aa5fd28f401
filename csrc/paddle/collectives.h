// Paddle's collectives (xccl) on core's.
#pragma once

#include <paddle/phi/backends/device_ext.h>

#include "../core/pinned.h"
#include "../core/runtime.h"

namespace hp::paddle_adapter {

// Fills in the xccl slots of a table with the layout that this adapter was compiled with. `pinned` lives for ever.
void fill_collectives(C_DeviceInterface& table, Runtime& runtime, PinnedAllocator& pinned);

}  // namespace hp::paddle_adapter
