// Element-wise reductions.
#pragma once

#include <cstddef>

#include "hardpoint/plugin.h"

namespace sim {

// 0 for an unknown element type.
size_t element_bytes(HpElement element);
const char* element_name(HpElement element);
// Null for an unknown reduction.
const char* reduction_name(HpReduction reduction);

// Reduces `count` elements of `num` sources, in order, into `out` and `copy`. Either may be null or one of the sources.
// 16-bit floats are accumulated in float32; integers wrap around; NaN propagates; integer means round toward 0.
void reduce_elements(HpElement element, HpReduction reduction, const char* const* sources, int num, size_t count,
                     char* out, char* copy);

}  // namespace sim
