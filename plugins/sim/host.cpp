#include "host.h"

#include <pthread.h>

namespace sim {

const HpHost* host = nullptr;
std::atomic<bool> device_used{false};
std::atomic<bool> forked{false};

void install_fork_handler() {
  pthread_atfork(nullptr, nullptr, [] {
    if (device_used.load(std::memory_order_relaxed)) forked.store(true, std::memory_order_relaxed);
  });
}

}  // namespace sim
