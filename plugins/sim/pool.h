// Splits the work of one task over several cores.
//
// The threads of the pool serve all streams, one task at a time: a task that finds them busy runs alone, on its
// stream's own thread. A range may be run by any thread, so that results must not depend on how the work was split.
#pragma once

#include <atomic>
#include <cstdint>

#include "config.h"

namespace sim {

// Makes the pool. Its threads start when they are first needed.
void open_pool();

// How long one group of a kernel takes, as far as is known: helps to decide whether sleeping threads are worth waking.
enum class GroupCost : uint8_t { low, high };

// `cost` is used, and corrected.
void run_in_parallel(uint64_t count, void (*run)(const void* body, uint64_t first, uint64_t last), const void* body,
                     std::atomic<GroupCost>& cost);

// Calls body(first, last), here and on the pool, for ranges that make up 0 .. count-1. Returns when all are done;
// rethrows the first exception of any of them.
template <class Body>
void parallel_for(uint64_t count, std::atomic<GroupCost>& cost, const Body& body) {
  if (count == 0) return;
  if (count == 1 || config.threads == 1 || config.deterministic) return body(uint64_t{0}, count);
  const auto run = [](const void* stored, uint64_t first, uint64_t last) {
    (*static_cast<const Body*>(stored))(first, last);
  };
  run_in_parallel(count, run, &body, cost);
}
template <class Body>
void parallel_for(uint64_t count, GroupCost cost, const Body& body) {
  std::atomic<GroupCost> known{cost};
  parallel_for(count, known, body);
}

}  // namespace sim
