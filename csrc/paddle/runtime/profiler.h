// Paddle's profiler on a mounted device: core's trace as Paddle's trace events.
#pragma once

#include <paddle/phi/backends/device_ext.h>

#include "core/runtime/runtime.h"

namespace hp::paddle_adapter {

// Paddle starts, stops and collects the devices one after the other. They share one trace: it begins with the first
// start and ends with the last stop.
void start_profiling();
void stop_profiling();
// Adds the records of the plug-in's devices. Each record becomes two events with the same correlation number: the
// launch, which Paddle finds inside the operator that ran on that thread at that time, and the kernel or copy.
void collect_trace_events(const Runtime& runtime, C_Profiler profiler);

}  // namespace hp::paddle_adapter
