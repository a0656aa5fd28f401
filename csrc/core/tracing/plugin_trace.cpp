#include "core/tracing/plugin_trace.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "core/tracing/host_events.h"

namespace hp {
namespace {

// Beyond this, a trace drops records: 4 million take about 300 MB.
constexpr size_t kMaxRecords = size_t{1} << 22;
// take_plugin_records gives up on a launch after this many later ones: no record comes that late.
constexpr size_t kKeptLaunches = size_t{1} << 16;
// Names are never freed. Kernels beyond this number get the name of their launch.
constexpr size_t kMaxNames = size_t{1} << 16, kMaxNameBytes = 1024;
// A record this long before its launch, or in the future, does not use the host's clock.
constexpr int64_t kClockErrorNs = 1'000'000'000;

struct Launch {
  enum class State : uint8_t { kOpen, kEnded, kDiscarded };
  TraceRecord record;
  Stream* stream;
  State state = State::kOpen;
  bool recorded = false;
};

// A record of the plug-in, with an interned name.
struct PluginRecord {
  HpTraceRecord record;
  Runtime* runtime;
};

struct Receiver {
  std::atomic<Runtime*> runtime{nullptr};  // set once; late records read it
  std::atomic<bool> open{false};
};

struct Trace {
  std::mutex mutex;
  uint64_t first = 1;  // number of the first launch; never used again
  std::vector<Launch> launches;
  std::vector<PluginRecord> records;
  uint64_t dropped = 0;
  std::array<Receiver, kMaxRuntimes> receivers;  // by slot
};

Trace& trace() {
  static auto* one = new Trace;
  return *one;
}

enum Mistake { kLate, kTooMany, kOrder, kClock, kCorrelation, kDevice, kStart, kStop, kNumMistakes };

void report_once(Mistake mistake, const Runtime& runtime, const std::string& text) {
  static std::array<std::atomic<bool>, kNumMistakes> reported{};
  if (reported[mistake].exchange(true)) return;
  std::fprintf(stderr, "[hardpoint] trace of plug-in '%s': %s (reported once)\n", runtime.name().c_str(), text.c_str());
}

const char* interned(const char* name) {
  if (name == nullptr || name[0] == '\0') return nullptr;
  static auto* mutex = new std::mutex;
  static auto* names = new std::set<std::string, std::less<>>;
  const std::string_view text(name, strnlen(name, kMaxNameBytes));
  std::lock_guard<std::mutex> lock(*mutex);
  const auto found = names->find(text);
  if (found != names->end()) return found->c_str();
  return names->size() < kMaxNames ? names->emplace(text).first->c_str() : nullptr;
}

// HpTracing's callback: any thread, also inside of a launch.
void receive(void* context, const HpTraceRecord* given) noexcept try {
  Receiver& receiver = *static_cast<Receiver*>(context);
  if (given == nullptr) return;
  PluginRecord received{HpTraceRecord{}, receiver.runtime};
  std::memcpy(&received.record, given, std::min(given->struct_size, sizeof(HpTraceRecord)));
  received.record.name = interned(received.record.name);
  Trace& current = trace();
  bool late = false;
  {
    std::lock_guard<std::mutex> lock(current.mutex);
    late = !receiver.open.load(std::memory_order_relaxed);
    if (!late && current.records.size() < kMaxRecords) {
      current.records.push_back(received);
    } else if (!late) {
      ++current.dropped;
    }
  }
  if (late) report_once(kLate, *receiver.runtime, "a record came after the trace was stopped; it is ignored");
} catch (const std::exception&) {  // out of memory: the record is lost
}

// Waits until the launches so far are done. An event leaves a failure for the program's own synchronization.
void wait_for(Stream& stream) noexcept {
  const WaitScope::Mute mute;
  Device& device = stream.device;
  try {
    if (device.plugin.has_events()) {
      Event* const event = device.acquire_event(false);
      try {
        event->record(stream);
        event->synchronize();
      } catch (const Error&) {  // the program's own synchronization reports it
      }
      device.release_event(event);
    } else {
      stream.wait();
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "[hardpoint] while a trace was stopped: %s\n", error.what());
  }
}

TraceKind kind_of(const HpTraceRecord& record, const TraceRecord* launch) {
  if (record.kind == HP_TRACE_COPY) {
    const bool copies =
        launch != nullptr && (launch->kind == TraceKind::kCopyToDevice || launch->kind == TraceKind::kCopyToHost ||
                              launch->kind == TraceKind::kCopyPeer);
    return copies ? launch->kind : TraceKind::kCopyOnDevice;
  }
  return record.kind == HP_TRACE_FILL         ? TraceKind::kFill
         : record.kind == HP_TRACE_COLLECTIVE ? TraceKind::kCollective
                                              : TraceKind::kKernel;
}

const char* default_name(TraceKind kind) {
  return kind == TraceKind::kKernel       ? "kernel"
         : kind == TraceKind::kFill       ? "fill memory"
         : kind == TraceKind::kCollective ? "collective"
                                          : "copy on device";
}

void time_by_host(TraceRecord& record) {
  record.timed_by_host = true;
  record.start_ns = record.launch_start_ns;
  record.end_ns = std::max(record.launch_end_ns, record.launch_start_ns);
}

// Joins a record with its launch, which may be null. Returns false if the record is unusable.
bool join(const PluginRecord& plugin_record, Launch* launch, TraceRecord* result) {
  const HpTraceRecord& given = plugin_record.record;
  Runtime& runtime = *plugin_record.runtime;
  const bool known_device = given.device >= 0 && given.device < runtime.device_count();
  if (!known_device) {
    report_once(kDevice, runtime, "a record names device " + std::to_string(given.device) + ", which does not exist");
    if (launch == nullptr) return false;
  }
  const bool ordered = given.end_ns >= given.start_ns;
  const bool plausible = launch == nullptr || (given.start_ns > launch->record.launch_start_ns - kClockErrorNs &&
                                               given.end_ns < trace_clock_ns() + kClockErrorNs);
  if (!ordered || !plausible) {
    report_once(ordered ? kClock : kOrder, runtime,
                !ordered
                    ? "a record ends before it starts; the host's times are shown instead"
                    : "a record does not use the host's clock (CLOCK_REALTIME); the host's times are shown instead");
    if (launch == nullptr) return false;
  }
  TraceRecord& record = *result;
  if (launch != nullptr) {
    record = launch->record;
    launch->recorded = true;
  } else {
    record = {};
    record.launch_start_ns = record.launch_end_ns = given.start_ns;
  }
  record.kind = kind_of(given, launch != nullptr ? &launch->record : nullptr);
  record.from_plugin = true;
  if (given.name != nullptr) record.name = given.name;
  if (record.name == nullptr) record.name = default_name(record.kind);
  if (given.bytes != 0) record.bytes = given.bytes;
  if (known_device) {
    Device& device = runtime.device(given.device);
    record.device = &device;
    if (launch == nullptr || &launch->stream->device != &device || launch->stream->handle() != given.stream) {
      const Stream* const stream = device.find_stream(given.stream);
      record.stream = stream != nullptr ? stream->id : launch != nullptr ? launch->record.stream : 0;
    }
  }
  record.start_ns = given.start_ns;
  record.end_ns = given.end_ns;
  if (!ordered || !plausible) time_by_host(record);
  return true;
}

// `first` is the number of launches[0].
void join_all(const std::vector<PluginRecord>& plugin_records, std::vector<Launch>& launches, uint64_t first,
              std::vector<TraceRecord>* records) {
  for (const PluginRecord& each : plugin_records) {
    const uint64_t number = each.record.correlation;
    Launch* const launch = number >= first && number - first < launches.size() ? &launches[number - first] : nullptr;
    if (launch == nullptr && number != 0) {
      report_once(kCorrelation, *each.runtime,
                  "a record has the correlation " + std::to_string(number) +
                      ", which belongs to no launch of this trace; it is shown without its operator");
    }
    TraceRecord record;
    if (join(each, launch, &record)) records->push_back(record);
  }
}

// The plug-in lost the record of this launch, or had nothing to do for it.
void give_up(Launch& launch, std::vector<TraceRecord>* records) {
  if (launch.recorded || launch.state != Launch::State::kEnded) return;
  time_by_host(launch.record);
  records->push_back(launch.record);
}

}  // namespace

bool traces_itself(const Device& device) {
  return trace().receivers[device.runtime.slot].open.load(std::memory_order_relaxed);
}

void start_plugin_trace(Runtime& runtime) {
  const HpTracing& tracing = runtime.plugin->tracing;
  if (tracing.start == nullptr) return;
  Receiver& receiver = trace().receivers[runtime.slot];
  receiver.runtime = &runtime;
  if (receiver.open.exchange(true)) return;
  const HpStatus status = guarded([&] { return tracing.start(&receive, &receiver); });
  if (status == HP_OK) return;
  receiver.open = false;
  const std::string message = take_message();
  if (status != HP_NOT_SUPPORTED) {
    report_once(kStart, runtime, "HpTracing.start failed: " + message + "; Hardpoint times the launches itself");
  }
}

void start_plugin_traces() {
  for (Runtime* runtime : Runtime::mounted()) start_plugin_trace(*runtime);
}

void stop_plugin_traces(std::vector<TraceRecord>* records) {
  Trace& current = trace();
  std::set<Stream*> streams;
  {
    std::lock_guard<std::mutex> lock(current.mutex);
    for (const Launch& launch : current.launches) streams.insert(launch.stream);
  }
  for (Stream* stream : streams) wait_for(*stream);
  for (Receiver& receiver : current.receivers) {
    if (!receiver.open) continue;
    if (guarded([&] { return receiver.runtime.load()->plugin->tracing.stop(); }) != HP_OK) {
      report_once(kStop, *receiver.runtime, "HpTracing.stop failed: " + take_message());
    }
  }
  std::vector<Launch> launches;
  std::vector<PluginRecord> plugin_records;
  uint64_t first = 0, dropped = 0;
  {
    std::lock_guard<std::mutex> lock(current.mutex);
    for (Receiver& receiver : current.receivers) receiver.open = false;
    launches.swap(current.launches);
    plugin_records.swap(current.records);
    first = current.first;
    current.first += launches.size();
    std::swap(dropped, current.dropped);
  }
  if (dropped > 0) {
    report_once(kTooMany, *plugin_records.front().runtime,
                std::to_string(dropped) + " records beyond the first " + std::to_string(kMaxRecords) + " were dropped");
  }
  join_all(plugin_records, launches, first, records);
  for (Launch& launch : launches) give_up(launch, records);
}

void take_plugin_records(std::vector<TraceRecord>* records) {
  Trace& current = trace();
  std::lock_guard<std::mutex> lock(current.mutex);
  join_all(current.records, current.launches, current.first, records);
  current.records.clear();
  if (current.launches.size() < 2 * kKeptLaunches) return;
  const size_t old = current.launches.size() - kKeptLaunches;
  for (size_t i = 0; i < old; ++i) give_up(current.launches[i], records);
  current.launches.erase(current.launches.begin(), current.launches.begin() + static_cast<ptrdiff_t>(old));
  current.first += old;
}

uint64_t begin_traced_launch(const TraceRecord& launch, Stream& stream) {
  Trace& current = trace();
  std::lock_guard<std::mutex> lock(current.mutex);
  current.launches.push_back({launch, &stream});
  return current.first + current.launches.size() - 1;
}

namespace {

template <class Change>
void change_launch(uint64_t number, Change change) {
  Trace& current = trace();
  std::lock_guard<std::mutex> lock(current.mutex);
  if (number < current.first || number - current.first >= current.launches.size()) return;  // stopped meanwhile
  change(current.launches[number - current.first]);
}

}  // namespace

void end_traced_launch(uint64_t number, int64_t end_ns) {
  change_launch(number, [&](Launch& launch) {
    launch.record.launch_end_ns = end_ns;
    launch.state = Launch::State::kEnded;
  });
}

void discard_traced_launch(uint64_t number) {
  change_launch(number, [](Launch& launch) { launch.state = Launch::State::kDiscarded; });
}

}  // namespace hp
