#include "core/recording/memory_plan.h"

#include <algorithm>
#include <map>

#include "hardpoint/plugin.h"

namespace hp {
namespace {

size_t aligned(size_t bytes) { return (bytes + HP_ALIGNMENT - 1) / HP_ALIGNMENT * HP_ALIGNMENT; }

bool lifetimes_overlap(const PlannedBuffer& a, const PlannedBuffer& b) { return a.first < b.last && b.first < a.last; }

}  // namespace

size_t plan_memory(std::vector<PlannedBuffer*> buffers) {
  std::stable_sort(buffers.begin(), buffers.end(),
                   [](const PlannedBuffer* a, const PlannedBuffer* b) { return a->bytes > b->bytes; });
  std::vector<PlannedBuffer*> placed;  // by offset
  size_t total = 0;
  for (PlannedBuffer* buffer : buffers) {
    size_t offset = 0;
    for (const PlannedBuffer* other : placed) {
      if (!lifetimes_overlap(*buffer, *other)) continue;
      if (offset + aligned(buffer->bytes) <= other->offset) break;
      offset = std::max(offset, other->offset + aligned(other->bytes));
    }
    buffer->offset = offset;
    total = std::max(total, offset + aligned(buffer->bytes));
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), buffer,
                         [](const PlannedBuffer* a, const PlannedBuffer* b) { return a->offset < b->offset; }),
        buffer);
  }
  return total;
}

size_t peak_live_bytes(const std::vector<PlannedBuffer*>& buffers) {
  std::map<size_t, ptrdiff_t> changes;
  for (const PlannedBuffer* buffer : buffers) {
    changes[buffer->first] += static_cast<ptrdiff_t>(aligned(buffer->bytes));
    changes[buffer->last] -= static_cast<ptrdiff_t>(aligned(buffer->bytes));
  }
  ptrdiff_t live = 0, peak = 0;
  for (const auto& [step, change] : changes) peak = std::max(peak, live += change);
  return static_cast<size_t>(peak);
}

}  // namespace hp
