// torch.profiler on the mounted device: core's trace as a Kineto profiler for PrivateUse1.
//
// Kineto tells the session which operator a thread runs (pushCorrelationId). Each record becomes two activities linked
// to that operator and joined by an arrow: the launch on the thread's row, and the kernel or copy on the stream's row.
#include "runtime/profiler.h"

#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>)

#define FMT_HEADER_ONLY 1  // torch does not export its copy of fmt
#define USE_KINETO 1       // what torch itself was built with; guards the declarations of the next header
#include <GenericTraceActivity.h>
#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/tracing/tracer.h"
#include "runtime/adapter.h"

namespace hp::torch_adapter {
namespace {

using libkineto::ActivityType;

// Operators and user annotations (record_function) that this thread runs, innermost last.
thread_local std::vector<uint64_t> operators, annotations;

void update_correlation() {
  set_trace_correlation(!operators.empty() ? operators.back() : annotations.empty() ? 0 : annotations.back());
}

// torch knows no type for collectives of other devices than NVIDIA's: they are kernels there, too.
ActivityType activity_type(TraceKind kind) {
  const bool kernel = kind == TraceKind::kKernel || kind == TraceKind::kCollective;
  if (kind == TraceKind::kFill) return ActivityType::GPU_MEMSET;
  return kernel ? ActivityType::CONCURRENT_KERNEL : ActivityType::GPU_MEMCPY;
}

int64_t row_of(const Device& device) { return device.index; }

class Session final : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    start_trace();
    status_ = libkineto::TraceStatus::RECORDING;
  }

  void stop() override {
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
    if (first <= last) buffer_->span = libkineto::TraceSpan(first, last, "hardpoint");
    buffer_->gpuOpCount = number_;
    for (const auto& [index, stream] : rows_) {
      const std::string name = "stream " + std::to_string(stream);
      logger.handleResourceInfo({stream, stream, index, name}, first);
    }
    std::set<int64_t> devices;
    for (const auto& row : rows_) devices.insert(row.first);
    for (const int64_t index : devices) logger.handleDeviceInfo(info(index), first);
    records_.clear();
  }

  // Kineto names the rows of GPUs after processTrace, and takes one name from here: the first device's.
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
                                                const libkineto::ITraceActivity* linked, bool starts_arrow) {
    buffer_->emplace_activity(buffer_->span, type, name);
    libkineto::GenericTraceActivity& activity = *buffer_->activities.back();
    activity.startTime = start;
    activity.endTime = end;
    activity.id = number_;
    activity.linked = linked;
    activity.flow.id = number_;
    activity.flow.type = libkineto::kLinkAsyncCpuGpu;
    activity.flow.start = starts_arrow;
    return activity;
  }

  void add(const TraceRecord& record, const libkineto::ITraceActivity* linked, libkineto::ActivityLogger& logger) {
    ++number_;
    const std::string device = record.device->name();
    if (record.thread != 0) {
      auto& launch = new_activity(ActivityType::PRIVATEUSE1_RUNTIME, std::string("launch ") + record.name,
                                  record.launch_start_ns, record.launch_end_ns, linked, true);
      launch.device = libkineto::processId();
      launch.resource = launch.threadId = record.thread;
      launch.addMetadata("correlation", number_);
      launch.log(logger);
    }

    auto& work = new_activity(activity_type(record.kind), record.name, record.start_ns, record.end_ns, linked, false);
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
  std::set<std::pair<int64_t, int64_t>> rows_;  // device, stream
  // Activities point to its span, so it must not move.
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
  int32_t number_ = 0;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return activities_; }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& types,
                                                                 const libkineto::Config&) override {
    // Asked for the CPU alone, torch still lists our launches.
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
  torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(
      [] { return std::make_unique<Profiler>(); });
}

}  // namespace hp::torch_adapter

#else

namespace hp::torch_adapter {
void register_profiler() {}
}  // namespace hp::torch_adapter

#endif
