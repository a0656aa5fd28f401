// Traces what devices do: one record per kernel, copy and collective, with times on the host's clock.
//
// A plug-in with timed events is measured by a pair of them around each launch. Without them, the tracer waits for the
// stream after each launch and takes the host's time; such records say so. (It does not wait for collectives, which
// wait for other processes.) Untraced, a launch pays one relaxed load.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/dispatch/operator.h"
#include "core/runtime/runtime.h"

namespace hp {

enum class TraceKind : uint8_t { kKernel, kCopyToDevice, kCopyToHost, kCopyOnDevice, kCopyPeer, kCollective };

struct TraceRecord {
  TraceKind kind;
  Tier tier = Tier::kVendor;  // of a kernel
  bool timed_by_host = false;
  const char* name;    // lives as long as the process
  const Operator* op;  // null outside operators
  const Device* device;
  int64_t stream;
  uint64_t bytes;
  uint64_t correlation;                    // see set_trace_correlation
  int32_t thread;                          // system id of the launching thread
  int64_t launch_start_ns, launch_end_ns;  // of the launching call, since the epoch
  int64_t start_ns = 0, end_ns = 0;        // on the device, since the epoch
};

extern std::atomic<bool> tracing_enabled;
inline bool tracing() { return tracing_enabled.load(std::memory_order_relaxed); }

// One trace at a time per process: start_trace drops the records of a trace that nobody stopped.
void start_trace();
// Waits for the traced work. Records are sorted by their start on the device. Never throws: a record whose times the
// plug-in cannot tell, or whose end comes before its start, is timed by the host.
std::vector<TraceRecord> stop_trace();

// A number, chosen by the adapter, of the framework operator that this thread runs; 0 outside operators. Later records
// of this thread carry it.
void set_trace_correlation(uint64_t correlation);

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

  // Nothing was launched: leaves no record.
  void discard() noexcept;

  struct Pending;

 private:
  void begin(TraceKind kind, const char* name, Stream& stream, uint64_t bytes, Tier tier) noexcept;
  void end() noexcept;
  Pending* pending_ = nullptr;
};

}  // namespace hp
