// What the host did while a trace runs: operators with their tier, compilations of portable kernels, and waits for the
// device with the line that waited.
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
};

extern std::atomic<bool> host_events_enabled;
inline bool host_events() { return host_events_enabled.load(std::memory_order_relaxed); }

// Events that may wait for the reader of a trace. With more, a thread that adds one calls the function of
// set_trace_overflow itself: a million events must not fill the memory.
constexpr size_t kMaxQueuedEvents = size_t{1} << 15;
void set_trace_overflow(void (*function)());
// Call without locks.
void on_queued(size_t count);

void start_host_events();
void stop_host_events();
// Events that ended since the last call.
std::vector<HostEvent> take_host_events();
// Observers (operator.h) that only trace: they do not mind how calls are issued.
int tracing_observers();
// Whether this thread is inside an operator whose event will be recorded.
bool inside_operator();

// Begins a call of an operator whose tier is known only at its end: observers are told of a Paddle composition when it
// is done. Leaves nothing behind if another tier served the call.
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

// Records the compilation of a kernel in its scope: generating its source and reading the cache, too.
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

// Records the wait in its scope. A wait inside another one, and waits of the tracer itself, are not recorded.
class WaitScope {
 public:
  WaitScope(const char* name, const Device& device) {
    if (__builtin_expect(host_events(), 0)) begin(name, device);
  }
  ~WaitScope() {
    if (__builtin_expect(name_ != nullptr, 0)) end();
  }
  WaitScope(const WaitScope&) = delete;

  // No wait of this thread is recorded in its scope.
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
