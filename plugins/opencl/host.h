// Callbacks of the host.
#pragma once

#include "hardpoint/plugin.h"

namespace ocl {

extern const HpHost* host;  // set by hp_plugin_init

}  // namespace ocl
