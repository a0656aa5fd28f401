// Splits one task across several cores.
//
// The pool serves all streams, one task at a time: if it is busy, a task runs on its stream's worker alone. Any thread
// may run any range, so results must not depend on the split.
#pragma once

#include <atomic>
#include <cstdint>

#include "config.h"

namespace sim {

// Creates the pool. Its threads start on first use.
void create_thread_pool();

// Estimated time per kernel group; decides whether to wake sleeping threads.
enum class GroupCost : uint8_t { low, high };

// Reads and updates `cost`.
void run_in_parallel(uint64_t count, void (*run)(const void* body, uint64_t first, uint64_t last), const void* body,
                     std::atomic<GroupCost>& cost);

// Calls body(first, last) on this thread and the pool, for ranges that cover 0 .. count-1. Returns when all are done;
// rethrows the first exception.
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
