// Helpers for the worker threads of streams and of the thread pool.
#pragma once

#include <chrono>
#include <functional>

namespace sim {

// Starts a detached thread that runs until the process exits. Throws if the system allows no more threads.
void start_thread(const char* name, std::function<void()> body);

void pause_cpu();

// Polls `condition` for up to `duration`, before the caller goes to sleep. Returns true once the condition holds.
template <class Condition>
bool spin_until(std::chrono::nanoseconds duration, Condition condition) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + duration;
  do {
    for (int i = 0; i < 32; ++i) {
      if (condition()) return true;
      pause_cpu();
    }
  } while (Clock::now() < end);
  return false;
}

}  // namespace sim
