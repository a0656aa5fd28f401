#include "runtime/trace.h"

#include <cstddef>
#include <ctime>
#include <mutex>
#include <shared_mutex>

#include "host.h"

namespace sim {

std::atomic<bool> tracing{false};

namespace {

// Shared by tasks that deliver a record: `stop` waits for them.
std::shared_mutex mutex;
void (*receiver)(void* context, const HpTraceRecord* record) = nullptr;
void* receiver_context = nullptr;

int64_t host_clock_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

HpStatus start_tracing(void (*record)(void* context, const HpTraceRecord* record), void* context) {
  if (host->struct_size < offsetof(HpHost, correlation) + sizeof(host->correlation) || !host->correlation)
    return host->fail(HP_NOT_SUPPORTED, "this Hardpoint does not number its launches");
  std::unique_lock<std::shared_mutex> lock(mutex);
  receiver = record;
  receiver_context = context;
  tracing.store(true, std::memory_order_relaxed);
  return HP_OK;
}

HpStatus stop_tracing() {
  std::unique_lock<std::shared_mutex> lock(mutex);
  tracing.store(false, std::memory_order_relaxed);
  receiver = nullptr;
  return HP_OK;
}

uint64_t traced_launch() { return tracing.load(std::memory_order_relaxed) ? host->correlation() : 0; }

TaskTrace::TaskTrace(uint64_t launch, HpTraceKind kind, int device, HpStream stream) : record_{} {
  record_.correlation = launch;
  if (launch == 0) return;
  record_.struct_size = sizeof(record_);
  record_.kind = kind;
  record_.device = device;
  record_.stream = stream;
  record_.start_ns = host_clock_ns();
}

void TaskTrace::finish() {
  if (record_.correlation == 0) return;
  record_.end_ns = host_clock_ns();
  std::shared_lock<std::shared_mutex> lock(mutex);
  if (receiver) receiver(receiver_context, &record_);
}

}  // namespace sim
