// The clock of traces, profiler records and the memory history.
#pragma once

#include <chrono>
#include <cstdint>

namespace hp {

// Nanoseconds since the epoch, the unit of the profilers' traces.
inline int64_t trace_clock_ns() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count();
}

}  // namespace hp
