#include "core/memory/allocator_stats.h"

namespace hp {
namespace {

// In the order of Counter.
constexpr StatArray AllocatorStats::* kFields[kNumCounters] = {
    &AllocatorStats::allocation,      &AllocatorStats::segment,
    &AllocatorStats::active,          &AllocatorStats::inactive_split,
    &AllocatorStats::allocated_bytes, &AllocatorStats::reserved_bytes,
    &AllocatorStats::active_bytes,    &AllocatorStats::inactive_split_bytes,
    &AllocatorStats::requested_bytes,
};

}  // namespace

AllocatorStats StatCounters::read() const {
  AllocatorStats stats;
  for (int counter = 0; counter < kNumCounters; ++counter) {
    const Tally& tally = tallies_[counter];
    StatArray& field = stats.*kFields[counter];
    Stat& aggregate = field[kAggregate];
    for (int pool : {kSmallPool, kLargePool}) {
      Stat& stat = field[pool];
      stat.current = tally.current[pool];
      stat.peak = tally.peak[pool];
      stat.allocated = tally.increased[pool];
      stat.freed = tally.base[pool] + tally.increased[pool] - tally.current[pool];
      aggregate.current += stat.current;
      aggregate.allocated += stat.allocated;
      aggregate.freed += stat.freed;
    }
    aggregate.peak = tally.peak[kAggregate];
  }
  stats.num_alloc_retries = num_alloc_retries;
  stats.num_ooms = num_ooms;
  stats.num_sync_all_streams = num_sync_all_streams;
  stats.num_device_alloc = num_device_alloc;
  stats.num_device_free = num_device_free;
  return stats;
}

void StatCounters::reset_peak() {
  for (Tally& tally : tallies_) {
    tally.peak = tally.current;
    tally.peak[kAggregate] = tally.current[kSmallPool] + tally.current[kLargePool];
  }
}

void StatCounters::reset_accumulated() {
  for (Tally& tally : tallies_) {
    tally.increased = {};
    tally.base = tally.current;
  }
  num_alloc_retries = num_ooms = num_sync_all_streams = num_device_alloc = num_device_free = 0;
}

}  // namespace hp
