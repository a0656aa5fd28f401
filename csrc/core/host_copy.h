// Copies between layouts on devices that have no kernel for it: through the host.
#pragma once

#include "runtime.h"
#include "view.h"

namespace hp {

// The views have one dtype and the same sizes. Waits for the device.
void copy_through_host(Device& device, const View& to, const View& from);

}  // namespace hp
