// Copies between layouts on devices that have no kernel for it.
#include "../core/host_copy.h"

#include "parts.h"

namespace hp::paddle_adapter {

void copy_through_host(Device& device, const View& to, const View& from) { hp::copy_through_host(device, to, from); }

}  // namespace hp::paddle_adapter
