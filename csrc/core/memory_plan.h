// Places for buffers in one piece of memory: those that do not live at the same time may share bytes.
#pragma once

#include <cstddef>
#include <vector>

namespace hp {

struct PlannedBuffer {
  size_t bytes;
  size_t first, last;  // it lives from step `first` on, up to but without `last`
  size_t offset = 0;   // the result, a multiple of HP_ALIGNMENT
};

// Sets the offsets and returns the size of the whole: the largest buffers first, each at the lowest place that is free
// for its whole life.
size_t plan_memory(std::vector<PlannedBuffer*> buffers);

// The most that is alive at any step: no plan needs less.
size_t most_alive(const std::vector<PlannedBuffer*>& buffers);

}  // namespace hp
