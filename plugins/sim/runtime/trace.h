// HpTracing: one record per task, made by the thread that ran it.
#pragma once

#include <atomic>
#include <cstdint>

#include "hardpoint/plugin.h"

namespace sim {

HpStatus start_tracing(void (*record)(void* context, const HpTraceRecord* record), void* context);
HpStatus stop_tracing();

extern std::atomic<bool> tracing;

// The launch that this thread is making, or 0 while nothing is traced.
uint64_t traced_launch();

// Times a task from construction to `finish`. `launch` 0: does nothing.
class TaskTrace {
 public:
  TaskTrace(uint64_t launch, HpTraceKind kind, int device, HpStream stream);
  void finish();

 private:
  HpTraceRecord record_;
};

}  // namespace sim
