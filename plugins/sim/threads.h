// What the threads of streams and of the pool have in common.
#pragma once

#include <chrono>
#include <functional>

namespace sim {

// Starts a thread that runs until the process is gone; throws when there can be no more threads.
void start_thread(const char* name, std::function<void()> body);

void pause_cpu();

// Looks for news for a while before the thread goes to sleep; true when there is some.
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
