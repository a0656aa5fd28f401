// Plans buffer offsets in one arena. Buffers whose lifetimes do not overlap may share memory.
#pragma once

#include <cstddef>
#include <vector>

namespace hp {

struct PlannedBuffer {
  size_t bytes;
  size_t first, last;  // lifetime: steps [first, last)
  size_t offset = 0;   // result, a multiple of HP_ALIGNMENT
};

// Sets the offsets and returns the arena size. Places the largest buffers first, each at the lowest offset that is free
// for its whole lifetime.
size_t plan_memory(std::vector<PlannedBuffer*> buffers);

// The most bytes live at any step, a lower bound for plan_memory.
size_t peak_live_bytes(const std::vector<PlannedBuffer*>& buffers);

}  // namespace hp
