// Copies between tensors of any layout and dtype on one device.
#pragma once

#include "core/dispatch/vendor_call.h"
#include "core/runtime/runtime.h"
#include "core/tensor/view.h"

namespace hp {

// Copies with the portable kernel; false if the device has none for it. The views must have the same sizes.
bool copy_portable(Operator& op, Device& device, const View& to, const View& from);
// The same for two views of one dtype with elements of `bytes` bytes. The views' dtype field is ignored.
bool copy_raw_portable(Operator& op, Device& device, const View& to, const View& from, int bytes);

// Copies with the vendor kernel in `slot`, the slot of "copy"; false if there is none or it declined.
bool copy_vendor(Operator& op, const KernelSlot& slot, Device& device, const View& to, const View& from);

// Copies with the portable kernel, else the vendor kernel, else through the host.
void copy_views(Device& device, const View& to, const View& from);

}  // namespace hp
