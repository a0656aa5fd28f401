// Reductions over several arrays in host memory.
#pragma once

#include <cstddef>
#include <vector>

#include "hardpoint/plugin.h"

namespace hp {

size_t element_bytes(HpElement element);
const char* element_name(HpElement element);
const char* reduction_name(HpReduction reduction);

// dst[i] = the reduction of all parts[k][i], in the order of k, so that every process finds the same bits. 16-bit
// floats are computed in float32, integers in 64 bits that wrap around; the mean of integers is cut off towards zero. A
// NaN stays. `dst` may be one of the parts.
void reduce_arrays(void* dst, const std::vector<const void*>& parts, size_t count, HpElement element,
                   HpReduction reduction);

}  // namespace hp
