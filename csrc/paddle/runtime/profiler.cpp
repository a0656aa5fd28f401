#include "runtime/profiler.h"

#include <paddle/phi/api/profiler/trace_event_collector.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <string>

#include "core/tracing/host_events.h"
#include "core/tracing/tracer.h"

namespace hp::paddle_adapter {
namespace {

using phi::TracerEventType;

struct SharedTrace {
  std::mutex mutex;
  int running = 0;  // devices that were started and not stopped yet
  std::vector<TraceRecord> records;
  std::vector<HostEvent> waits;
  uint32_t correlation = 0;  // of the last event, unique in the process
};

SharedTrace& shared_trace() {
  static auto* one = new SharedTrace;
  return *one;
}

struct CopyNames {
  const char *kind, *source, *target;
};

CopyNames copy_names(TraceKind kind) {
  switch (kind) {
    case TraceKind::kCopyToDevice:
      return {"HtoD", "Host", "Device"};
    case TraceKind::kCopyToHost:
      return {"DtoH", "Device", "Host"};
    case TraceKind::kCopyPeer:
      return {"PtoP", "Device", "Device"};
    default:
      return {"DtoD", "Device", "Device"};
  }
}

void set_text(char (&field)[phi::kMemKindMaxLen], const char* text) { std::strncpy(field, text, sizeof(field) - 1); }

phi::DeviceTraceEvent device_event(const TraceRecord& record, uint32_t correlation) {
  const bool kernel = record.kind == TraceKind::kKernel || record.kind == TraceKind::kCollective;
  const auto make = [&](TracerEventType type, const auto& info) {
    return phi::DeviceTraceEvent(record.name, type, static_cast<uint64_t>(record.start_ns),
                                 static_cast<uint64_t>(record.end_ns), static_cast<uint64_t>(record.device->index), 0,
                                 static_cast<uint64_t>(record.stream), correlation, info);
  };
  if (kernel) return make(TracerEventType::Kernel, phi::KernelEventInfo{});
  if (record.kind == TraceKind::kFill) {
    phi::MemsetEventInfo info{};
    info.num_bytes = record.bytes;
    set_text(info.memory_kind, "Device");
    return make(TracerEventType::Memset, info);
  }
  phi::MemcpyEventInfo info{};
  const CopyNames names = copy_names(record.kind);
  info.num_bytes = record.bytes;
  set_text(info.copy_kind, names.kind);
  set_text(info.src_kind, names.source);
  set_text(info.dst_kind, names.target);
  return make(TracerEventType::Memcpy, info);
}

}  // namespace

void start_profiling() {
  SharedTrace& trace = shared_trace();
  std::lock_guard<std::mutex> lock(trace.mutex);
  if (trace.running++ != 0) return;
  trace.records.clear();
  start_trace();
  start_wait_trace();
}

void stop_profiling() {
  SharedTrace& trace = shared_trace();
  std::lock_guard<std::mutex> lock(trace.mutex);
  if (trace.running == 0 || --trace.running != 0) return;
  trace.waits = stop_wait_trace();
  trace.records = stop_trace();
}

void collect_trace_events(const Runtime& runtime, C_Profiler profiler) {
  // Plug-ins cannot link the library that has Paddle's functions for adding events.
  auto& collector = *reinterpret_cast<phi::TraceEventCollector*>(profiler);
  const auto process = static_cast<uint64_t>(getpid());
  SharedTrace& trace = shared_trace();
  std::lock_guard<std::mutex> lock(trace.mutex);
  for (const TraceRecord& record : trace.records) {
    if (&record.device->runtime != &runtime) continue;
    const uint32_t correlation = ++trace.correlation;
    collector.AddRuntimeEvent(phi::RuntimeTraceEvent(
        std::string("launch ") + record.name, static_cast<uint64_t>(record.launch_start_ns),
        static_cast<uint64_t>(record.launch_end_ns), process, static_cast<uint64_t>(record.thread), correlation, 0));
    collector.AddDeviceEvent(device_event(record, correlation));
  }
  for (const HostEvent& wait : trace.waits) {
    if (&wait.device->runtime != &runtime) continue;
    collector.AddRuntimeEvent(phi::RuntimeTraceEvent(wait.name, static_cast<uint64_t>(wait.start_ns),
                                                     static_cast<uint64_t>(wait.end_ns), process,
                                                     static_cast<uint64_t>(wait.thread), ++trace.correlation, 0));
  }
}

}  // namespace hp::paddle_adapter
