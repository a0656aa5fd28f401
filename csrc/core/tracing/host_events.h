// The host's events during a trace: operators with their tier, compilations of portable kernels, and waits for the
// device with the source line.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/dispatch/operator.h"
#include "core/tracing/source_stack.h"

namespace hp {

class Device;

enum class HostEventKind : uint8_t { kOperator, kCompilation, kWait };

struct HostEvent {
  HostEventKind kind;
  Tier tier;                 // of an operator
  const char* name;          // lives as long as the process
  const Device* device;      // of a wait
  int32_t thread;            // system id
  StackId stack;             // of a wait, and of an operator in the CPU tier
  int64_t start_ns, end_ns;  // since the epoch
  uint64_t correlation = 0;  // of a wait: see set_trace_correlation
};

extern std::atomic<bool> host_events_enabled;
inline bool host_events() { return host_events_enabled.load(std::memory_order_relaxed); }

// Maximum number of events that wait for the trace's reader. Beyond it, the thread that adds one calls the function of
// set_trace_overflow, which bounds the memory of a long trace.
constexpr size_t kMaxQueuedEvents = size_t{1} << 15;
void set_trace_overflow(void (*function)());
// Call without locks.
void on_queued(size_t count);

void start_host_events();
void stop_host_events();
// Events that ended since the last call.
std::vector<HostEvent> take_host_events();
// For a forked child: nobody reads the events there. Takes no lock, which a thread of the parent may hold.
void abandon_host_events();

// Records waits only, for profilers that get the operators elsewhere. Independent of start_host_events.
extern std::atomic<bool> waits_enabled;  // by either
void start_wait_trace();
std::vector<HostEvent> stop_wait_trace();
// Number of observers (operator.h) that only trace. They do not need calls to be issued one by one.
int tracing_observers();
// Whether this thread is inside an operator whose event will be recorded.
bool inside_operator();

// Begins a call of an operator whose tier is known only at its end, such as a Paddle composition. Records nothing if
// another tier served the call.
class CompositionScope {
 public:
  explicit CompositionScope(const Operator& op) {
    if (__builtin_expect(host_events(), 0)) begin(op);
  }
  ~CompositionScope() {
    if (__builtin_expect(begun_, 0)) end();
  }
  CompositionScope(const CompositionScope&) = delete;

 private:
  void begin(const Operator& op);
  void end() noexcept;
  bool begun_ = false;
  size_t depth_ = 0;
};

// Records the compilation of a kernel in its scope, including source generation and cache lookup.
class CompilationScope {
 public:
  explicit CompilationScope(const std::string& name) {
    if (host_events()) begin(name);
  }
  ~CompilationScope() {
    if (name_ != nullptr) end();
  }
  CompilationScope(const CompilationScope&) = delete;

 private:
  void begin(const std::string& name);
  void end() noexcept;
  const char* name_ = nullptr;
  int64_t start_ns_ = 0;
};

// Records the wait in its scope. Nested waits and the tracer's own waits are not recorded.
class WaitScope {
 public:
  WaitScope(const char* name, const Device& device) {
    if (__builtin_expect(waits_enabled.load(std::memory_order_relaxed), 0)) begin(name, device);
  }
  ~WaitScope() {
    if (__builtin_expect(name_ != nullptr, 0)) end();
  }
  WaitScope(const WaitScope&) = delete;

  // Suppresses the recording of this thread's waits in its scope.
  struct Mute {
    Mute();
    ~Mute();
    Mute(const Mute&) = delete;
  };

 private:
  void begin(const char* name, const Device& device);
  void end() noexcept;
  const char* name_ = nullptr;
  const Device* device_ = nullptr;
  StackId stack_ = 0;
  int64_t start_ns_ = 0;
};

}  // namespace hp
