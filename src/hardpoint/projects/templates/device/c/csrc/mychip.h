/* What the files of this plug-in share. */
#pragma once

#include <hardpoint/plugin.h>

extern const HpHost* mychip_host; /* what Hardpoint offers: fail, raise, current_stream, scratch memory */
