// The arithmetic of reductions.
#pragma once

#include <cstddef>

#include "hardpoint/plugin.h"

namespace sim {

// 0 for an element that is not known.
size_t element_bytes(HpElement element);
const char* element_name(HpElement element);
// Null for a reduction that is not known.
const char* reduction_name(HpReduction reduction);

// Reduces `count` elements of each of `num` sources, in their order, into `out` and `copy`, of which either may be null
// and either may be one of the sources. 16-bit floats are accumulated in float32; integers wrap; a NaN stays a NaN; the
// mean of integers is rounded towards 0.
void reduce_elements(HpElement element, HpReduction reduction, const char* const* sources, int num, size_t count,
                     char* out, char* copy);

}  // namespace sim
