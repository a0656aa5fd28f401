// Callbacks of the host.
#pragma once

#include "hardpoint/plugin.h"

namespace nv {

extern const HpHost* host;  // set by hp_plugin_init

}  // namespace nv
