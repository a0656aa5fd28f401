// The tracer with plug-ins that make records themselves, correctly or not.
#include "core/tracing/tracer.h"

#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "core/runtime/runtime.h"
#include "core/tracing/host_events.h"
#include "fake_plugin.h"

namespace {

using RecordFunction = void (*)(void*, const HpTraceRecord*);

// The arguments of the plug-in's start, and its behavior in a copy.
std::atomic<RecordFunction> record{nullptr};
std::atomic<void*> context{nullptr};
std::atomic<int> starts{0}, stops{0};
HpStatus start_status = HP_OK;
std::function<void(HpTraceRecord&)> change;  // may also send records of its own

void send(HpTraceRecord& told) { record.load()(context, &told); }

HpTraceRecord valid(int device, HpStream stream) {
  HpTraceRecord told{};
  told.struct_size = sizeof(told);
  told.kind = HP_TRACE_COPY;
  told.device = device;
  told.stream = stream;
  told.start_ns = hp::trace_clock_ns();
  told.end_ns = told.start_ns + 1000;
  told.correlation = fake_host->correlation();
  return told;
}

HpStatus traced_copy(int device, void*, const void*, size_t, HpStream stream) {
  const RecordFunction function = record;  // another thread may stop the trace
  if (function == nullptr) return HP_OK;
  HpTraceRecord told = valid(device, stream);
  if (change) change(told);
  if (told.struct_size != 0) function(context, &told);
  return HP_OK;
}

HpStatus start(RecordFunction function, void* given) {
  reenter(0);
  ++starts;
  if (start_status != HP_OK) return fake_host->fail(start_status, "no tracer is installed");
  context = given;
  record = function;
  return HP_OK;
}

HpStatus stop() {
  reenter(0);
  ++stops;
  record = nullptr;
  return HP_OK;
}

HpStatus no_link(int, void*, int, const void*, size_t, HpStream) { return HP_NOT_SUPPORTED; }

HpStatus init_traced(const HpHost* host, const HpPlugin** plugin) {
  const HpPlugin* full = nullptr;
  init_full(host, &full);
  static HpPlugin table = *full;
  static const HpTracing tracing = {sizeof(HpTracing), start, stop};
  static const HpPeer peer = {sizeof(HpPeer), no_link, nullptr};
  table.name = "traced";
  table.copy_to_device = table.copy_to_host = table.copy_on_device = traced_copy;
  table.tracing = &tracing;
  table.peer = &peer;
  *plugin = &table;
  return HP_OK;
}

hp::Runtime& traced_runtime() {
  static hp::Runtime& runtime = hp::Runtime::mount(hp::Plugin::adopt(init_traced, "test_tracing"));
  return runtime;
}

void copy(hp::Stream& stream, size_t bytes = 64) {
  static char memory[64];
  stream.device.copy_to_device(memory, memory, bytes, stream);
}

// The records of a trace of one copy, for which the plug-in does `what`.
std::vector<hp::TraceRecord> trace_copy(std::function<void(HpTraceRecord&)> what) {
  change = std::move(what);
  hp::start_trace();
  copy(traced_runtime().device(0).default_stream());
  std::vector<hp::TraceRecord> records = hp::stop_trace();
  change = nullptr;
  return records;
}

std::string source(const hp::TraceRecord& found) { return found.source(); }

}  // namespace

TEST(records_are_joined_with_their_launches) {
  hp::Device& device = traced_runtime().device(1);
  hp::Stream& side = device.new_stream(0);
  change = [](HpTraceRecord& told) {
    told.name = "dma";
    told.bytes = 63;
  };
  CHECK(fake_host->correlation() == 0);
  const int started = starts, stopped = stops;
  hp::start_trace();
  hp::set_trace_correlation(77);
  copy(side);
  hp::set_trace_correlation(0);
  change = nullptr;
  copy(device.default_stream(), 32);
  const auto records = hp::stop_trace();
  CHECK(fake_host->correlation() == 0);
  CHECK(starts == started + 1 && stops == stopped + 1);
  CHECK(records.size() == 2);
  const hp::TraceRecord &first = records[0], &second = records[1];
  CHECK(std::string(first.name) == "dma" && first.bytes == 63 && first.correlation == 77);
  CHECK(first.kind == hp::TraceKind::kCopyToDevice && first.device == &device && first.stream == side.id);
  CHECK(first.end_ns - first.start_ns == 1000 && source(first) == "plug-in");
  CHECK(first.thread != 0 && first.launch_start_ns <= first.start_ns && first.launch_end_ns >= first.launch_start_ns);
  CHECK(std::string(second.name) == "copy to device" && second.bytes == 32 && second.correlation == 0);
  CHECK(second.stream == 0 && source(second) == "plug-in");
}

TEST(one_launch_may_leave_several_records_or_none) {
  auto records = trace_copy([](HpTraceRecord& told) {
    HpTraceRecord extra = told;
    extra.kind = HP_TRACE_KERNEL;
    extra.name = "swizzle";
    extra.start_ns -= 10;  // before the copy
    send(extra);
    extra.kind = HP_TRACE_FILL;
    extra.name = nullptr;
    extra.start_ns -= 10;
    send(extra);
  });
  CHECK(records.size() == 3);
  CHECK(records[0].kind == hp::TraceKind::kFill && records[1].kind == hp::TraceKind::kKernel);
  CHECK(std::string(records[1].name) == "swizzle" && records[2].kind == hp::TraceKind::kCopyToDevice);
  records = trace_copy([](HpTraceRecord& told) { told.struct_size = 0; });  // sends nothing
  CHECK(records.size() == 1 && source(records[0]) == "host");
  CHECK(records[0].end_ns >= records[0].start_ns && records[0].start_ns == records[0].launch_start_ns);
}

TEST(an_end_before_its_start_is_timed_by_the_host) {
  const auto records = trace_copy([](HpTraceRecord& told) { told.end_ns = told.start_ns - 1; });
  CHECK(records.size() == 1 && source(records[0]) == "host");
  CHECK(records[0].start_ns == records[0].launch_start_ns && records[0].end_ns >= records[0].start_ns);
}

TEST(times_of_another_clock_are_replaced) {
  for (const int64_t wrong : {int64_t{5}, INT64_MAX / 2}) {
    const auto records = trace_copy([&](HpTraceRecord& told) {
      told.start_ns = wrong;
      told.end_ns = wrong + 1;
    });
    CHECK(records.size() == 1 && source(records[0]) == "host");
  }
}

TEST(an_unknown_correlation_keeps_the_record) {
  for (const uint64_t number : {uint64_t{0}, uint64_t{1} << 60, UINT64_MAX}) {
    const auto records = trace_copy([&](HpTraceRecord& told) {
      told.correlation = number;
      told.name = "firmware";
    });
    CHECK(records.size() == 2);  // this one, and the launch without a record
    const hp::TraceRecord& lost = records[std::string(records[0].name) == "firmware" ? 0 : 1];
    CHECK(std::string(lost.name) == "firmware" && lost.op == nullptr && lost.thread == 0);
    CHECK(lost.kind == hp::TraceKind::kCopyOnDevice && source(lost) == "plug-in");
  }
  // Unusable without a launch: impossible times, or an unknown device.
  CHECK(trace_copy([](HpTraceRecord& told) {
          told.correlation = 0;
          told.end_ns = told.start_ns - 1;
        }).size() == 1);
  CHECK(trace_copy([](HpTraceRecord& told) {
          told.correlation = 0;
          told.device = 4711;
        }).size() == 1);
}

TEST(unknown_devices_streams_and_short_records) {
  auto records = trace_copy([](HpTraceRecord& told) { told.device = -1; });
  CHECK(records.size() == 1 && records[0].device == &traced_runtime().device(0));
  records = trace_copy([](HpTraceRecord& told) { told.stream = reinterpret_cast<HpStream>(uintptr_t{16}); });
  CHECK(records.size() == 1 && records[0].stream == 0);
  // A record of a smaller struct: what is missing is zero, here the correlation.
  records = trace_copy([](HpTraceRecord& told) { told.struct_size = offsetof(HpTraceRecord, correlation); });
  CHECK(records.size() == 2);
}

TEST(a_million_records) {
  constexpr int kCount = 1'000'000;
  const auto records = trace_copy([](HpTraceRecord& told) {
    static char name[] = "kernel 0";
    told.name = name;
    for (int i = 1; i < kCount; ++i) {
      name[7] = static_cast<char>('0' + i % 10);
      send(told);
    }
  });
  CHECK(records.size() == kCount);
  std::set<const char*> names;
  for (const hp::TraceRecord& each : records) names.insert(each.name);
  CHECK(names.size() == 10);  // stored once each
}

TEST(a_record_after_stop_is_ignored) {
  RecordFunction late = nullptr;
  void* late_context = nullptr;
  trace_copy([&](HpTraceRecord&) {
    late = record;
    late_context = context;
  });
  HpTraceRecord told = valid(0, nullptr);
  late(late_context, &told);
  const auto records = trace_copy(nullptr);
  CHECK(records.size() == 1);
}

TEST(a_plugin_that_cannot_trace_now) {
  for (const HpStatus status : {HP_NOT_SUPPORTED, HP_ERROR}) {
    start_status = status;
    const int stopped = stops;
    const auto records = trace_copy(nullptr);
    start_status = HP_OK;
    CHECK(stops == stopped);
    CHECK(records.size() == 1 && source(records[0]) == "host");  // its events have no times
  }
}

TEST(a_declined_copy_leaves_no_record) {
  hp::Runtime& runtime = traced_runtime();
  char from[8] = {}, to[8];
  hp::start_trace();
  runtime.copy_peer(runtime.device(1), to, runtime.device(0), from, sizeof(to), runtime.device(0).default_stream());
  const auto records = hp::stop_trace();
  CHECK(records.size() == 2);  // through the host
  CHECK(records[0].kind == hp::TraceKind::kCopyToHost && records[1].kind == hp::TraceKind::kCopyToDevice);
}

TEST(records_are_streamed_while_the_trace_runs) {
  hp::Stream& stream = traced_runtime().device(0).default_stream();
  // The record of the second copy arrives when the third one is made, and the fourth has none.
  HpTraceRecord held{};
  int number = 0;
  change = [&](HpTraceRecord& told) {
    ++number;
    told.bytes = static_cast<uint64_t>(number);
    if (number == 2) held = told;
    if (number == 3) send(held);
    if (number == 2 || number == 4) told.struct_size = 0;  // sends nothing
  };
  const auto bytes = [](const std::vector<hp::TraceRecord>& records) {
    std::vector<uint64_t> all;
    for (const hp::TraceRecord& each : records) all.push_back(each.bytes);
    return all;
  };
  using Bytes = std::vector<uint64_t>;
  hp::start_trace_stream();
  copy(stream);
  CHECK(bytes(hp::take_trace_stream(false)) == Bytes{1});
  copy(stream);
  CHECK(hp::take_trace_stream(false).empty());
  copy(stream);
  const auto late = hp::take_trace_stream(false);
  CHECK(bytes(late) == (Bytes{2, 3}));
  CHECK(late[0].thread != 0 && late[0].launch_start_ns <= late[0].start_ns && source(late[0]) == "plug-in");
  copy(stream, 32);
  CHECK(hp::take_trace_stream(false).empty());
  const auto rest = hp::take_trace_stream(true);  // the plug-in lost a record
  CHECK(bytes(rest) == Bytes{32} && source(rest[0]) == "host");
  copy(stream);
  CHECK(bytes(hp::take_trace_stream(true)) == Bytes{5});  // the trace goes on
  hp::stop_trace_stream();
  change = nullptr;
  copy(stream);
  CHECK(hp::take_trace_stream(true).empty());
}

TEST(a_long_stream_gives_up_lost_records) {
  hp::Stream& stream = traced_runtime().device(0).default_stream();
  constexpr size_t kCopies = 200'000;
  size_t made = 0, given_up = 0, total = 0;
  change = [&](HpTraceRecord& told) {
    if (made++ % 10 == 0) told.struct_size = 0;  // every tenth has no record
  };
  hp::start_trace_stream();
  const auto count = [&](const std::vector<hp::TraceRecord>& records) {
    for (const hp::TraceRecord& each : records) given_up += each.timed_by_host;
    total += records.size();
  };
  for (size_t i = 0; i < kCopies; ++i) {
    copy(stream);
    if (i % 1000 == 999) count(hp::take_trace_stream(false));
  }
  CHECK(given_up > 0 && given_up < kCopies / 10);
  count(hp::take_trace_stream(true));
  hp::stop_trace_stream();
  change = nullptr;
  CHECK(total == kCopies && given_up == kCopies / 10);
}

TEST(a_profiler_and_a_stream_get_the_same_records) {
  hp::Stream& stream = traced_runtime().device(0).default_stream();
  hp::start_trace_stream();
  copy(stream, 1);
  hp::start_trace();
  copy(stream, 2);
  CHECK(hp::take_trace_stream(false).size() == 2);
  copy(stream, 3);
  const auto profiled = hp::stop_trace();
  CHECK(profiled.size() == 2 && profiled[0].bytes == 2 && profiled[1].bytes == 3);
  copy(stream, 4);
  const auto rest = hp::take_trace_stream(true);
  CHECK(rest.size() == 2 && rest[0].bytes == 3 && rest[1].bytes == 4);
  for (const hp::TraceRecord& each : rest) CHECK(source(each) == "plug-in");
  hp::stop_trace_stream();
}

TEST(a_plugin_that_is_mounted_during_a_trace_joins_it) {
  hp::start_trace_stream();
  const int started = starts;
  hp::Runtime& late = hp::Runtime::mount(hp::Plugin::adopt(
      [](const HpHost* host, const HpPlugin** plugin) {
        const HpPlugin* traced = nullptr;
        init_traced(host, &traced);
        static HpPlugin table = *traced;
        table.name = "late";
        *plugin = &table;
        return HP_OK;
      },
      "test_tracing"));
  CHECK(starts == started + 1);
  copy(late.device(0).default_stream());
  const auto records = hp::take_trace_stream(true);
  hp::stop_trace_stream();
  CHECK(records.size() == 1 && source(records[0]) == "plug-in" && &records[0].device->runtime == &late);
}

TEST(waits_are_recorded_for_profilers) {
  hp::Device& device = traced_runtime().device(0);
  device.synchronize();
  hp::start_wait_trace();
  hp::set_trace_correlation(5);
  device.synchronize();
  hp::set_trace_correlation(0);
  {
    const hp::WaitScope::Mute mute;
    device.synchronize();
  }
  device.default_stream().synchronize();
  const auto waits = hp::stop_wait_trace();
  device.synchronize();
  CHECK(waits.size() == 2 && hp::stop_wait_trace().empty());
  CHECK(std::string(waits[0].name) == "wait for the device" && waits[0].correlation == 5);
  CHECK(waits[0].device == &device && waits[0].thread != 0 && waits[0].end_ns >= waits[0].start_ns);
  CHECK(std::string(waits[1].name) == "wait for a stream" && waits[1].correlation == 0);
}

TEST(traces_start_and_stop_during_work) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      hp::Stream& stream = traced_runtime().device(t).default_stream();
      while (!done) copy(stream);
    });
  }
  size_t total = 0;
  for (int i = 0; i < 100 || total == 0; ++i) {
    hp::start_trace();
    std::this_thread::yield();
    for (const hp::TraceRecord& each : hp::stop_trace()) {
      CHECK(each.end_ns >= each.start_ns && each.device != nullptr && each.name != nullptr);
      ++total;
    }
  }
  hp::start_trace();
  hp::start_trace();  // nobody stopped the first one
  done = true;
  for (std::thread& thread : threads) thread.join();
  hp::stop_trace();
  CHECK(hp::stop_trace().empty());
}

CHECK_MAIN
