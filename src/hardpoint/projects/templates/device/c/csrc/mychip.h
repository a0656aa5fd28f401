/* Declarations shared by the files of this plug-in. */
#pragma once

#include <hardpoint/plugin.h>

extern const HpHost* mychip_host; /* host functions: fail, raise, current_stream, scratch memory */
