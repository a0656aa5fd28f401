// The counters behind AllocatorStats. Every allocation updates a dozen of them, so derived values (aggregates, freed
// amounts) are computed by read().
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/memory/allocator.h"

namespace hp {

enum Counter {
  kAllocation,
  kSegment,
  kActive,
  kInactiveSplit,
  kAllocatedBytes,
  kReservedBytes,
  kActiveBytes,
  kInactiveSplitBytes,
  kRequestedBytes,
  kNumCounters
};

// Not thread-safe: guarded by the allocator's lock.
class StatCounters {
 public:
  int64_t num_alloc_retries = 0, num_ooms = 0, num_sync_all_streams = 0, num_device_alloc = 0, num_device_free = 0;

  void increase(Counter counter, StatKind pool, int64_t amount) {
    Tally& tally = tallies_[counter];
    const int64_t current = tally.current[pool] += amount;
    tally.increased[pool] += amount;
    tally.peak[pool] = std::max(tally.peak[pool], current);
    tally.peak[kAggregate] = std::max(tally.peak[kAggregate], tally.current[kSmallPool] + tally.current[kLargePool]);
  }

  void decrease(Counter counter, StatKind pool, int64_t amount) { tallies_[counter].current[pool] -= amount; }

  void change(Counter counter, StatKind pool, int64_t amount) {
    if (amount > 0) {
      increase(counter, pool, amount);
    } else if (amount < 0) {
      decrease(counter, pool, -amount);
    }
  }

  int64_t current(Counter counter) const {
    return tallies_[counter].current[kSmallPool] + tallies_[counter].current[kLargePool];
  }

  AllocatorStats read() const;
  void reset_peak();
  void reset_accumulated();

 private:
  struct Tally {
    // [kAggregate] is used in `peak` only: the peak of the sum is not the sum of the peaks.
    std::array<int64_t, kNumStatKinds> current{}, peak{};
    std::array<int64_t, kNumStatKinds> increased{};  // since the last reset_accumulated
    std::array<int64_t, kNumStatKinds> base{};       // `current` at the last reset_accumulated
  };
  std::array<Tally, kNumCounters> tallies_{};
};

}  // namespace hp
