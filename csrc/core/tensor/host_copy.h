// Strided and converting copies through the host, for devices without a copy kernel.
#pragma once

#include "core/runtime/runtime.h"
#include "core/tensor/view.h"

namespace hp {

// The views must have the same sizes; their dtypes may differ. Synchronizes the current stream.
void copy_through_host(Device& device, const View& to, const View& from);

}  // namespace hp
