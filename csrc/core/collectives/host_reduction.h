// Elementwise reduction of several arrays in host memory, for host collectives.
#pragma once

#include <cstddef>
#include <vector>

#include "hardpoint/plugin.h"

namespace hp {

size_t element_bytes(HpElement element);
const char* element_name(HpElement element);
const char* reduction_name(HpReduction reduction);

// dst[i] = the reduction of parts[k][i] over k, in that order, so every process computes the same bits. 16-bit floats
// are computed in float32, integers in int64 with wraparound; the mean of integers truncates toward zero. NaN
// propagates. `dst` may be one of the parts.
void reduce_arrays(void* dst, const std::vector<const void*>& parts, size_t count, HpElement element,
                   HpReduction reduction);

}  // namespace hp
