// Copies on one device between tensors of any layout and dtype.
#pragma once

#include "runtime.h"
#include "service.h"
#include "view.h"

namespace hp {

// The portable kernel; false where the device has none for it. The views have the same sizes.
bool copy_portable(Operator& op, Device& device, const View& to, const View& from);
// The same between tensors of one dtype whose elements have this size; the views need not name the dtype.
bool move_portable(Operator& op, Device& device, const View& to, const View& from, int bytes);

// By whichever way there is: the portable kernel, else through the host.
void copy_views(Device& device, const View& to, const View& from);

}  // namespace hp
