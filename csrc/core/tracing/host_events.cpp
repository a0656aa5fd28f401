#include "core/tracing/host_events.h"

#include <mutex>
#include <set>

#include "core/tracing/tracer.h"

namespace hp {

std::atomic<bool> host_events_enabled{false}, waits_enabled{false};

namespace {

// Calls that have not ended. A call that raised leaves its entry for an outer call to remove.
constexpr size_t kMaxOpenCalls = 256;

struct OpenCall {
  const Operator* op;
  Tier tier;
  StackId stack;
  int64_t start_ns;
};
thread_local std::vector<OpenCall> open_calls;
thread_local int waits = 0;

struct Events {
  std::mutex mutex;
  std::vector<HostEvent> list;
  std::vector<HostEvent> waits;   // of start_wait_trace
  std::set<std::string> kernels;  // names of compilations
  int observer = 0;
  bool all = false, only_waits = false;  // what was started

  // Call with the mutex held.
  void apply() {
    host_events_enabled.store(all, std::memory_order_relaxed);
    waits_enabled.store(all || only_waits, std::memory_order_relaxed);
  }

  static Events& instance() {
    static auto* events = new Events;
    return *events;
  }
};

std::atomic<void (*)()> overflow{nullptr};

void add(const HostEvent& event) {
  Events& events = Events::instance();
  size_t queued;
  {
    std::lock_guard<std::mutex> lock(events.mutex);
    if (events.all) events.list.push_back(event);
    if (events.only_waits && event.kind == HostEventKind::kWait) events.waits.push_back(event);
    queued = events.list.size();
  }
  on_queued(queued);
}

void on_call(void*, const CallEvent& event) {
  if (!host_events()) return;
  if (event.begin) {
    // The same operator in another tier, which declined.
    if (!open_calls.empty() && open_calls.back().op == &event.op) open_calls.pop_back();
    if (open_calls.size() == kMaxOpenCalls) open_calls.clear();
    const StackId stack = event.tier == Tier::kCpu ? current_stack() : 0;
    open_calls.push_back({&event.op, event.tier, stack, trace_clock_ns()});
    return;
  }
  for (size_t depth = open_calls.size(); depth-- > 0;) {
    const OpenCall call = open_calls[depth];
    if (call.op != &event.op || call.tier != event.tier) continue;
    open_calls.resize(depth);
    add({HostEventKind::kOperator, call.tier, call.op->name.c_str(), nullptr, thread_id(), call.stack, call.start_ns,
         trace_clock_ns()});
    return;
  }
}

}  // namespace

void set_trace_overflow(void (*function)()) { overflow.store(function, std::memory_order_release); }

void on_queued(size_t count) {
  if (count < kMaxQueuedEvents) return;
  if (const auto function = overflow.load(std::memory_order_acquire)) function();
}

void start_host_events() {
  Events& events = Events::instance();
  std::lock_guard<std::mutex> lock(events.mutex);
  events.list.clear();
  if (events.observer == 0) events.observer = add_observer(&on_call, nullptr);
  events.all = true;
  events.apply();
}

void stop_host_events() {
  Events& events = Events::instance();
  std::lock_guard<std::mutex> lock(events.mutex);
  events.all = false;
  events.apply();
  if (events.observer != 0) remove_observer(events.observer);
  events.observer = 0;
}

std::vector<HostEvent> take_host_events() {
  std::vector<HostEvent> taken;
  Events& events = Events::instance();
  std::lock_guard<std::mutex> lock(events.mutex);
  taken.swap(events.list);
  return taken;
}

void abandon_host_events() {
  Events& events = Events::instance();
  events.all = events.only_waits = false;
  events.apply();
}

void start_wait_trace() {
  Events& events = Events::instance();
  std::lock_guard<std::mutex> lock(events.mutex);
  events.waits.clear();
  events.only_waits = true;
  events.apply();
}

std::vector<HostEvent> stop_wait_trace() {
  std::vector<HostEvent> taken;
  Events& events = Events::instance();
  std::lock_guard<std::mutex> lock(events.mutex);
  events.only_waits = false;
  events.apply();
  taken.swap(events.waits);
  return taken;
}

bool inside_operator() { return host_events() && !open_calls.empty(); }

int tracing_observers() { return host_events() ? 1 : 0; }

void CompositionScope::begin(const Operator& op) {
  depth_ = open_calls.size();
  begun_ = true;
  open_calls.push_back({&op, Tier::kDecomposition, 0, trace_clock_ns()});
}

void CompositionScope::end() noexcept {
  if (open_calls.size() > depth_) open_calls.resize(depth_);
}

void CompilationScope::begin(const std::string& name) {
  Events& events = Events::instance();
  std::lock_guard<std::mutex> lock(events.mutex);
  name_ = events.kernels.insert(name).first->c_str();
  start_ns_ = trace_clock_ns();
}

void CompilationScope::end() noexcept {
  add({HostEventKind::kCompilation, Tier::kPortable, name_, nullptr, thread_id(), 0, start_ns_, trace_clock_ns()});
}

WaitScope::Mute::Mute() { ++waits; }
WaitScope::Mute::~Mute() { --waits; }

void WaitScope::begin(const char* name, const Device& device) {
  if (waits++ == 0) {
    stack_ = host_events() ? current_stack() : 0;
    start_ns_ = trace_clock_ns();
  }
  device_ = &device;
  name_ = name;
}

void WaitScope::end() noexcept {
  if (--waits != 0) return;
  add({HostEventKind::kWait, Tier::kVendor, name_, device_, thread_id(), stack_, start_ns_, trace_clock_ns(),
       trace_correlation()});
}

}  // namespace hp
