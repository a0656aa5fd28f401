#include "core/tracing/tracer.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "core/tracing/host_events.h"
#include "core/tracing/plugin_trace.h"

namespace hp {

std::atomic<bool> tracing_enabled{false};

// A launch whose times are not known yet. Owns its events.
struct TraceScope::Pending {
  TraceRecord record;
  Stream* stream;
  Event* start = nullptr;  // null: timed by the host
  Event* end = nullptr;
  int exceptions;  // in flight when the launch began
  uint64_t session;
  uint64_t number = 0, outer = 0;  // if the plug-in traces itself: this launch, and the one around it

  Pending() = default;
  Pending(const Pending&) = delete;
  ~Pending() {
    for (Event* event : {start, end}) {
      if (event != nullptr) stream->device.release_event(event);
    }
  }
};

namespace {

using Pending = TraceScope::Pending;
using PendingList = std::vector<std::unique_ptr<Pending>>;

// Maximum number of launches without times. Beyond it, finished ones are resolved, which returns their events.
constexpr size_t kMaxPending = 4096, kResolveInterval = 512;

thread_local uint64_t correlation = 0, launch_number = 0;

// An event with a known host time, which ties the device's clock to the host's.
struct Anchor {
  Event* event;
  int64_t host_ns;
};

struct Session {
  std::mutex mutex;
  uint64_t number = 0;
  PendingList pending;
  std::atomic<bool> profiling{false}, streaming{false};
  std::vector<TraceRecord> records;   // of start_trace
  std::vector<TraceRecord> streamed;  // of start_trace_stream
  std::map<const Device*, Anchor> anchors;

  // The functions below are called with the mutex held.
  void deliver(const std::vector<TraceRecord>& done) {
    if (profiling) records.insert(records.end(), done.begin(), done.end());
    if (streaming) streamed.insert(streamed.end(), done.begin(), done.end());
  }
  void apply() { tracing_enabled.store(profiling || streaming, std::memory_order_relaxed); }
};

Session& session() {
  static auto* one = new Session;
  return *one;
}

// Records an event on the idle stream and waits for it. The tightest of a few tries gives its time.
Anchor make_anchor(Stream& stream) {
  Device& device = stream.device;
  Anchor best{nullptr, 0};
  int64_t shortest = INT64_MAX;
  const WaitScope::Mute mute;
  stream.wait();
  for (int i = 0; i < 4; ++i) {
    Event* event = device.acquire_event(true);
    const int64_t before = trace_clock_ns();
    event->record(stream);
    event->synchronize();
    const int64_t after = trace_clock_ns();
    if (after - before < shortest) {
      shortest = after - before;
      std::swap(best.event, event);
      best.host_ns = before + (after - before) / 2;
    }
    device.release_event(event);
  }
  return best;
}

// The anchor of the stream's device in this session; made on first use, outside the lock.
Anchor anchor_of(Stream& stream) {
  Session& current = session();
  {
    std::lock_guard<std::mutex> lock(current.mutex);
    const auto found = current.anchors.find(&stream.device);
    if (found != current.anchors.end()) return found->second;
  }
  const Anchor made = make_anchor(stream);
  std::lock_guard<std::mutex> lock(current.mutex);
  const auto [entry, added] = current.anchors.emplace(&stream.device, made);
  if (!added) stream.device.release_event(made.event);
  return entry->second;
}

// Fills in the times of a finished launch.
TraceRecord resolve(Pending& launch, const Anchor& anchor) {
  TraceRecord& record = launch.record;
  try {
    launch.end->synchronize();
    const auto time = [&](const Event& event) {
      return anchor.host_ns + static_cast<int64_t>(anchor.event->elapsed_ms(event) * 1e6);
    };
    record.start_ns = time(*launch.start);
    record.end_ns = time(*launch.end);
    // The anchor is uncertain by half a round trip: do not let a kernel start before its launch.
    const int64_t early = record.launch_start_ns - record.start_ns;
    if (early > 0) {
      record.start_ns += early;
      record.end_ns += early;
    }
    if (record.end_ns >= record.start_ns) return record;
  } catch (const Error&) {  // also a failed kernel: the program's own synchronization reports it
  }
  record.timed_by_host = true;
  record.start_ns = record.launch_start_ns;
  record.end_ns = std::max(record.launch_end_ns, record.launch_start_ns);
  return record;
}

// Resolves launches, all or only those that are done. Takes the session's lock, but not while it calls the plug-in.
void resolve_pending(bool all) {
  Session& current = session();
  const WaitScope::Mute mute;
  PendingList taken, rest;
  std::vector<TraceRecord> done;
  {
    std::lock_guard<std::mutex> lock(current.mutex);
    taken.swap(current.pending);
  }
  for (auto& launch : taken) {
    bool ready = all;
    try {
      ready = ready || launch->end->query();
      if (ready) done.push_back(resolve(*launch, anchor_of(*launch->stream)));
    } catch (const Error&) {
      ready = true;  // a failed device: drop the record
    }
    if (!ready) rest.push_back(std::move(launch));
  }
  std::lock_guard<std::mutex> lock(current.mutex);
  current.deliver(done);
  current.pending.insert(current.pending.begin(), std::make_move_iterator(rest.begin()),
                         std::make_move_iterator(rest.end()));
}

// Ends the plug-ins' own traces and delivers their records.
void end_plugin_traces() {
  std::vector<TraceRecord> done;
  stop_plugin_traces(&done);
  std::lock_guard<std::mutex> lock(session().mutex);
  session().deliver(done);
}

void drop_session() {
  Session& current = session();
  PendingList pending;
  std::map<const Device*, Anchor> anchors;
  {
    std::lock_guard<std::mutex> lock(current.mutex);
    ++current.number;
    pending.swap(current.pending);
    anchors.swap(current.anchors);
    current.records.clear();
  }
  for (const auto& [device, anchor] : anchors) const_cast<Device*>(device)->release_event(anchor.event);
}

bool has_timed_events(const Plugin& plugin) { return plugin.has_events() && plugin.events.elapsed != nullptr; }

}  // namespace

int32_t thread_id() {
  static thread_local const auto id = static_cast<int32_t>(syscall(SYS_gettid));
  return id;
}

uint64_t launch_correlation() { return launch_number; }

void start_trace() {
  if (session().streaming) resolve_pending(true);
  end_plugin_traces();
  drop_session();
  start_plugin_traces();
  std::lock_guard<std::mutex> lock(session().mutex);
  session().profiling = true;
  session().apply();
}

std::vector<TraceRecord> stop_trace() {
  if (!session().streaming) tracing_enabled.store(false, std::memory_order_relaxed);
  resolve_pending(true);
  end_plugin_traces();
  if (session().streaming) start_plugin_traces();
  std::vector<TraceRecord> records;
  bool last = false;
  {
    std::lock_guard<std::mutex> lock(session().mutex);
    session().profiling = false;
    session().apply();
    last = !session().streaming;
    records.swap(session().records);
  }
  if (last) drop_session();
  std::stable_sort(records.begin(), records.end(),
                   [](const TraceRecord& a, const TraceRecord& b) { return a.start_ns < b.start_ns; });
  return records;
}

void start_trace_stream() {
  if (!session().profiling) {
    end_plugin_traces();
    drop_session();
    start_plugin_traces();
  }
  std::lock_guard<std::mutex> lock(session().mutex);
  session().streamed.clear();
  session().streaming = true;
  session().apply();
}

std::vector<TraceRecord> take_trace_stream(bool all) {
  resolve_pending(all);
  std::vector<TraceRecord> plugin_records, records;
  if (all) {
    stop_plugin_traces(&plugin_records);
    start_plugin_traces();
  } else {
    take_plugin_records(&plugin_records);
  }
  std::lock_guard<std::mutex> lock(session().mutex);
  session().deliver(plugin_records);
  records.swap(session().streamed);
  return records;
}

void stop_trace_stream() {
  bool last = false;
  {
    std::lock_guard<std::mutex> lock(session().mutex);
    session().streaming = false;
    session().streamed.clear();
    session().apply();
    last = !session().profiling;
  }
  if (!last) return;
  end_plugin_traces();
  drop_session();
}

void trace_mounted(Runtime& runtime) {
  if (tracing()) start_plugin_trace(runtime);
}

void set_trace_correlation(uint64_t number) { correlation = number; }

uint64_t trace_correlation() { return correlation; }

void TraceScope::begin(TraceKind kind, const char* name, Stream& stream, uint64_t bytes, Tier tier) noexcept {
  if (stream.capture() != nullptr) return;  // nothing runs now
  auto launch = std::make_unique<Pending>();
  launch->stream = &stream;
  launch->exceptions = std::uncaught_exceptions();
  TraceRecord& record = launch->record;
  record.kind = kind;
  record.tier = tier;
  record.name = name;
  record.op = current_operator();
  record.device = &stream.device;
  record.stream = stream.id;
  record.bytes = bytes;
  record.correlation = correlation;
  record.thread = thread_id();
  record.inside_operator = inside_operator();
  if (traces_itself(stream.device)) {
    record.launch_start_ns = trace_clock_ns();
    launch->number = begin_traced_launch(record, stream);
    launch->outer = std::exchange(launch_number, launch->number);
    pending_ = launch.release();
    return;
  }
  try {
    if (has_timed_events(stream.device.plugin)) {
      anchor_of(stream);
      launch->start = stream.device.acquire_event(true);
      launch->end = stream.device.acquire_event(true);
      launch->record.launch_start_ns = trace_clock_ns();
      launch->start->record(stream);
    } else {
      if (kind != TraceKind::kCollective) stream.wait();  // earlier work does not count
      launch->record.launch_start_ns = trace_clock_ns();
    }
  } catch (const Error&) {
    return;  // the launch itself reports that the device failed
  }
  {
    std::lock_guard<std::mutex> lock(session().mutex);
    launch->session = session().number;
  }
  pending_ = launch.release();
}

void TraceScope::discard() noexcept {
  if (pending_ == nullptr) return;
  if (pending_->number != 0) {
    discard_traced_launch(pending_->number);
    launch_number = pending_->outer;
  }
  delete pending_;
  pending_ = nullptr;
}

void TraceScope::end() noexcept {
  const bool failed = std::uncaught_exceptions() > pending_->exceptions;
  if (failed && pending_->number != 0) return discard();
  std::unique_ptr<Pending> launch(pending_);
  if (failed) return;
  if (launch->number != 0) {
    launch_number = launch->outer;
    end_traced_launch(launch->number, trace_clock_ns());
    return;
  }
  Session& current = session();
  try {
    if (launch->end != nullptr) {
      launch->end->record(*launch->stream);
    } else if (launch->record.kind != TraceKind::kCollective) {
      launch->stream->wait();
    }
  } catch (const Error&) {
    return;
  }
  launch->record.launch_end_ns = trace_clock_ns();
  size_t waiting = 0, streamed = 0;
  {
    std::lock_guard<std::mutex> lock(current.mutex);
    if (launch->session != current.number) return;  // the trace was stopped meanwhile
    if (launch->end == nullptr) {
      launch->record.timed_by_host = true;
      launch->record.start_ns = launch->record.launch_start_ns;
      launch->record.end_ns = launch->record.launch_end_ns;
      current.deliver({launch->record});
    } else {
      current.pending.push_back(std::move(launch));
    }
    waiting = current.pending.size();
    streamed = current.streamed.size();
  }
  on_queued(streamed);
  if (waiting >= kMaxPending && waiting % kResolveInterval == 0) resolve_pending(false);
}

}  // namespace hp
