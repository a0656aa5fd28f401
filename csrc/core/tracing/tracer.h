// Traces what devices do: one record per kernel, copy and collective, with times on the host's clock.
//
// A plug-in with HpTracing makes the records itself (plugin_trace.h). With timed events, a pair of them around each
// launch gives the times. With neither, the tracer waits for the stream after each launch and takes the host's times,
// except for collectives, which wait for other processes. Each record names its source. Without a trace, a launch costs
// one relaxed load.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/dispatch/operator.h"
#include "core/runtime/clock.h"
#include "core/runtime/runtime.h"

namespace hp {

enum class TraceKind : uint8_t { kKernel, kCopyToDevice, kCopyToHost, kCopyOnDevice, kCopyPeer, kCollective, kFill };

struct TraceRecord {
  TraceKind kind = TraceKind::kKernel;
  Tier tier = Tier::kVendor;  // of a kernel
  bool timed_by_host = false;
  const char* name = nullptr;    // lives as long as the process
  const Operator* op = nullptr;  // null outside operators
  const Device* device = nullptr;
  int64_t stream = 0;
  uint64_t bytes = 0;
  uint64_t correlation = 0;                        // see set_trace_correlation
  int32_t thread = 0;                              // system id of the launching thread; 0: no launch is known
  int64_t launch_start_ns = 0, launch_end_ns = 0;  // of the launching call, since the epoch
  int64_t start_ns = 0, end_ns = 0;                // on the device, since the epoch
  bool from_plugin = false;                        // the plug-in's own record
  bool inside_operator = false;                    // host_events.h

  // Where the times come from: "host", "plug-in" or "device events".
  const char* source() const { return timed_by_host ? "host" : from_plugin ? "plug-in" : "device events"; }
};

extern std::atomic<bool> tracing_enabled;
inline bool tracing() { return tracing_enabled.load(std::memory_order_relaxed); }

// The system's number of this thread.
int32_t thread_id();

// One trace at a time per process: start_trace drops the records of a trace that was not stopped.
void start_trace();
// Waits for the traced work. Records are sorted by their start on the device. Never throws: a record whose times the
// plug-in cannot tell, or whose end comes before its start, is timed by the host.
std::vector<TraceRecord> stop_trace();

// The number of the launch that this thread is making, for host->correlation(); 0 outside launches and traces.
uint64_t launch_correlation();

// A second reader, for trace files, independent of start_trace: both get every record. Records are handed over while
// the trace runs, which bounds the memory of a long trace.
void start_trace_stream();
// Records whose times became known since the last call. With `all`, waits for the traced work. Any order.
std::vector<TraceRecord> take_trace_stream(bool all);
void stop_trace_stream();

// For Runtime::mount: a running trace takes the plug-in in.
void trace_mounted(Runtime& runtime);

// A number, chosen by the adapter, of the framework operator that this thread runs; 0 outside operators. Later records
// of this thread carry it.
void set_trace_correlation(uint64_t correlation);
uint64_t trace_correlation();

// Traces the launch in its scope.
class TraceScope {
 public:
  TraceScope(TraceKind kind, const char* name, Stream& stream, uint64_t bytes = 0, Tier tier = Tier::kVendor) {
    if (__builtin_expect(tracing(), 0)) begin(kind, name, stream, bytes, tier);
  }
  ~TraceScope() {
    if (__builtin_expect(pending_ != nullptr, 0)) end();
  }
  TraceScope(const TraceScope&) = delete;

  // Nothing was launched: drops the record.
  void discard() noexcept;

  struct Pending;

 private:
  void begin(TraceKind kind, const char* name, Stream& stream, uint64_t bytes, Tier tier) noexcept;
  void end() noexcept;
  Pending* pending_ = nullptr;
};

}  // namespace hp
