// torch.profiler on the mounted device: core's trace as a Kineto profiler for PrivateUse1.
//
// Kineto tells the session which operator a thread runs (pushCorrelationId). Each record becomes two activities linked
// to that operator and joined by an arrow: the launch on the thread's row, and the kernel or copy on the stream's row.
// Waits for the device are on the rows of their threads.
//
// Without Kineto (`use_kineto=False`), torch times operators itself with the events of Stubs.
#include "runtime/profiler.h"

#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

#include "core/tracing/host_events.h"
#include "core/tracing/tracer.h"
#include "runtime/adapter.h"

namespace hp::torch_adapter {
namespace {

class Stubs final : public torch::profiler::impl::ProfilerStubs {
 public:
  bool enabled() const override { return true; }

  void record(c10::DeviceIndex* device, torch::profiler::impl::ProfilerVoidEventStub* event,
              int64_t* cpu_ns) const override {
    Device& current = device_at(-1);
    if (device != nullptr) *device = static_cast<c10::DeviceIndex>(current.index);
    auto mark = std::make_shared<Mark>(current);
    if (mark->event != nullptr) {
      mark->event->record(current_stream(current));
    } else {
      current_stream(current).synchronize();
    }
    mark->host_ns = trace_clock_ns();
    *event = std::move(mark);
    if (cpu_ns != nullptr) *cpu_ns = c10::getTime();
  }

  // In microseconds.
  float elapsed(const torch::profiler::impl::ProfilerVoidEventStub* from,
                const torch::profiler::impl::ProfilerVoidEventStub* to) const override {
    const auto& start = *static_cast<const Mark*>(from->get());
    const auto& end = *static_cast<const Mark*>(to->get());
    if (start.event == nullptr || &start.device != &end.device) {
      return static_cast<float>(static_cast<double>(end.host_ns - start.host_ns) * 1e-3);
    }
    end.event->synchronize();
    return static_cast<float>(start.event->elapsed_ms(*end.event) * 1e3);
  }

  void onEachDevice(std::function<void(int)> visit) const override {
    const int before = current_device(runtime());
    for (int index = 0; index < runtime().device_count(); ++index) {
      set_current_device(runtime(), index);
      visit(index);
    }
    set_current_device(runtime(), before);
  }

  void synchronize() const override { device_at(-1).synchronize(); }

  // For profilers of vendors, of which the contract knows nothing.
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}

 private:
  // A point in a stream: an event, or the host's time once the stream is idle.
  struct Mark {
    Device& device;
    Event* event = nullptr;
    int64_t host_ns = 0;

    explicit Mark(Device& device) : device(device) {
      const Plugin& plugin = device.plugin;
      if (plugin.has_events() && plugin.events.elapsed != nullptr) event = device.acquire_event(true);
    }
    Mark(const Mark&) = delete;
    ~Mark() { device.release_event(event); }
  };
};

void register_stubs() {
  static Stubs stubs;
  torch::profiler::impl::registerPrivateUse1Methods(&stubs);
}

}  // namespace
}  // namespace hp::torch_adapter

#if __has_include(<libkineto.h>)

#define FMT_HEADER_ONLY 1  // torch does not export its copy of fmt
#define USE_KINETO 1       // what torch itself was built with; guards the declarations of the next header
#include <GenericTraceActivity.h>
#include <libkineto.h>
#include <output_base.h>
#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>)
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#define HP_KINETO_REGISTRY 1
#endif

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hp::torch_adapter {
namespace {

using libkineto::ActivityType;

// Operators and user annotations (record_function) that this thread runs, innermost last.
thread_local std::vector<uint64_t> operators, annotations;

void update_correlation() {
  set_trace_correlation(!operators.empty() ? operators.back() : annotations.empty() ? 0 : annotations.back());
}

// torch has no activity type for collectives of other devices, and shows NVIDIA's as kernels too.
ActivityType activity_type(TraceKind kind) {
  const bool kernel = kind == TraceKind::kKernel || kind == TraceKind::kCollective;
  if (kind == TraceKind::kFill) return ActivityType::GPU_MEMSET;
  return kernel ? ActivityType::CONCURRENT_KERNEL : ActivityType::GPU_MEMCPY;
}

int64_t row_of(const Device& device) { return device.index; }

// torch's tables give a kernel's time to every event of the host whose number is that of the kernel's operator.
// Launches are events of the host, too: their numbers are far from those of operators, which count from 1.
constexpr int32_t kFirstNumber = 1 << 30;

class Session final : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    start_trace();
    start_wait_trace();
    status_ = libkineto::TraceStatus::RECORDING;
  }

  void stop() override {
    waits_ = stop_wait_trace();
    records_ = stop_trace();
    status_ = libkineto::TraceStatus::PROCESSING;
  }

  std::vector<std::string> errors() override { return {}; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, INT64_MIN, INT64_MAX);
  }

  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback operator_of,
                    int64_t start_ns, int64_t end_ns) override {
    int64_t first = INT64_MAX, last = 0;
    for (const TraceRecord& record : records_) {
      if (record.device->plugin.name != runtime().name()) continue;  // a device of Paddle in the same process
      first = std::min(first, record.launch_start_ns);
      last = std::max(last, record.end_ns);
      if (record.launch_start_ns < start_ns || record.launch_start_ns > end_ns) continue;
      add(record, operator_of(static_cast<int32_t>(record.correlation)), logger);
    }
    for (const HostEvent& wait : waits_) {
      if (wait.device->plugin.name != runtime().name() || wait.start_ns < start_ns || wait.start_ns > end_ns) continue;
      add(wait, operator_of(static_cast<int32_t>(wait.correlation)), logger);
    }
    if (first <= last) buffer_->span = libkineto::TraceSpan(first, last, "hardpoint");
    buffer_->gpuOpCount = number_ - kFirstNumber;
    for (const auto& [index, stream] : rows_) {
      const std::string name = "stream " + std::to_string(stream);
      logger.handleResourceInfo({stream, stream, index, name}, first);
    }
    std::set<int64_t> devices;
    for (const auto& row : rows_) devices.insert(row.first);
    for (const int64_t index : devices) logger.handleDeviceInfo(info(index), first);
    records_.clear();
    waits_.clear();
  }

  // Kineto names the rows of GPUs after processTrace. It takes one name from here, the first device's.
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    if (rows_.empty()) return nullptr;
    return std::make_unique<libkineto::DeviceInfo>(info(rows_.begin()->first));
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(uint64_t id) override {
    operators.push_back(id);
    update_correlation();
  }
  void popCorrelationId() override {
    if (!operators.empty()) operators.pop_back();  // empty: the profiler was started inside the operator
    update_correlation();
  }
  void pushUserCorrelationId(uint64_t id) override {
    annotations.push_back(id);
    update_correlation();
  }
  void popUserCorrelationId() override {
    if (!annotations.empty()) annotations.pop_back();
    update_correlation();
  }

 private:
  static libkineto::DeviceInfo info(int64_t index) {
    const std::string label = runtime().name() + ":" + std::to_string(index);
    return {index, index + libkineto::kExceedMaxPid, label, label};
  }

  libkineto::GenericTraceActivity& new_activity(ActivityType type, const std::string& name, int64_t start, int64_t end,
                                                const libkineto::ITraceActivity* linked) {
    buffer_->emplace_activity(buffer_->span, type, name);
    libkineto::GenericTraceActivity& activity = *buffer_->activities.back();
    activity.startTime = start;
    activity.endTime = end;
    activity.id = number_;
    activity.linked = linked;
    return activity;
  }

  void join_arrow(libkineto::GenericTraceActivity& activity, bool starts) const {
    activity.flow.id = number_;
    activity.flow.type = libkineto::kLinkAsyncCpuGpu;
    activity.flow.start = starts;
  }

  void add(const HostEvent& wait, const libkineto::ITraceActivity* linked, libkineto::ActivityLogger& logger) {
    ++number_;
    auto& activity = new_activity(ActivityType::PRIVATEUSE1_RUNTIME, wait.name, wait.start_ns, wait.end_ns, linked);
    activity.device = libkineto::processId();
    activity.resource = activity.threadId = wait.thread;
    activity.addMetadataQuoted("device", wait.device->name());
    activity.log(logger);
  }

  void add(const TraceRecord& record, const libkineto::ITraceActivity* linked, libkineto::ActivityLogger& logger) {
    ++number_;
    const std::string device = record.device->name();
    if (record.thread != 0) {
      auto& launch = new_activity(ActivityType::PRIVATEUSE1_RUNTIME, std::string("launch ") + record.name,
                                  record.launch_start_ns, record.launch_end_ns, linked);
      join_arrow(launch, true);
      launch.device = libkineto::processId();
      launch.resource = launch.threadId = record.thread;
      launch.addMetadata("correlation", number_);
      launch.log(logger);
    }

    auto& work = new_activity(activity_type(record.kind), record.name, record.start_ns, record.end_ns, linked);
    join_arrow(work, false);
    work.device = static_cast<int32_t>(row_of(*record.device));
    work.resource = static_cast<int32_t>(record.stream);
    work.threadId = record.thread;
    work.addMetadata("correlation", number_);
    work.addMetadata("stream", record.stream);
    work.addMetadataQuoted("device", device);
    work.addMetadataQuoted("timed by", record.source());
    if (record.bytes != 0) work.addMetadata("bytes", record.bytes);
    if (record.kind == TraceKind::kKernel) work.addMetadataQuoted("tier", tier_name(record.tier));
    if (record.op != nullptr) work.addMetadataQuoted("operator", record.op->name);
    work.log(logger);
    rows_.emplace(row_of(*record.device), record.stream);
  }

  std::vector<TraceRecord> records_;
  std::vector<HostEvent> waits_;
  std::set<std::pair<int64_t, int64_t>> rows_;  // device, stream
  // Must not move: activities point to its span.
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
  int32_t number_ = kFirstNumber;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return activities_; }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& types,
                                                                 const libkineto::Config&) override {
    // torch lists our launches even if only the CPU is profiled.
    if (types.count(ActivityType::CONCURRENT_KERNEL) == 0) return nullptr;
    return std::make_unique<Session>();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t, const std::set<ActivityType>& types,
                                                                 const libkineto::Config& config) override {
    return configure(types, config);
  }

 private:
  const std::string name_ = "hardpoint";
  const std::set<ActivityType> activities_ = {ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY,
                                              ActivityType::GPU_MEMSET, ActivityType::PRIVATEUSE1_RUNTIME};
};

}  // namespace

void register_profiler() {
  register_stubs();
  const auto make = [] { return std::make_unique<Profiler>(); };
#ifdef HP_KINETO_REGISTRY
  torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(make);
#else
  libkineto::api().registerProfilerFactory(make);  // torch before 2.13 has no registry
#endif
}

}  // namespace hp::torch_adapter

#else

namespace hp::torch_adapter {
void register_profiler() { register_stubs(); }
}  // namespace hp::torch_adapter

#endif
