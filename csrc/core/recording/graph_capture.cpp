#include "core/recording/graph_capture.h"

#include <algorithm>

#include "core/memory/scratch.h"

namespace hp {
namespace {

std::atomic<uint64_t> captures{0};

// Bytes from the first to the last element of a tensor.
size_t span_of(const DLTensor& tensor) {
  int64_t last = 0, contiguous = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] == 0) return 0;
    last += (tensor.shape[i] - 1) * (tensor.strides != nullptr ? tensor.strides[i] : contiguous);
    contiguous *= tensor.shape[i];
  }
  const auto bits = static_cast<size_t>(tensor.dtype.bits) * tensor.dtype.lanes;
  return (static_cast<size_t>(last + 1) * bits + 7) / 8;
}

}  // namespace

// Ends the plug-in's capture so that the host can record a launch, and starts another one afterwards.
class GraphCapture::Pause {
 public:
  explicit Pause(GraphCapture& capture) : capture_(capture) {
    if (capture_.plugin_captures_) capture_.end_plugin_capture(true);
  }
  // Call at the end of the recording: the destructor only runs it after an error.
  void end() {
    ended_ = true;
    if (capture_.by_plugin_) capture_.begin_plugin_capture();
  }
  ~Pause() {
    try {
      if (!ended_) end();
    } catch (const std::exception&) {
      // finish() finds no capture to end; the first error is already being reported.
    }
  }

 private:
  GraphCapture& capture_;
  bool ended_ = false;
};

GraphCapture::GraphCapture(Stream& stream, std::shared_ptr<MemoryPool> pool)
    : stream(stream),
      number(captures.fetch_add(1) + 1),
      device_(stream.device),
      by_plugin_(device_.plugin.graphs.launch != nullptr),
      thread_(std::this_thread::get_id()),
      graph_(new DeviceGraph(device_, std::move(pool))) {
  if (stream.capture() != nullptr) {
    throw Error(HP_INVALID_ARGUMENT,
                device_.name() + ": stream " + std::to_string(stream.id) + " already captures a graph: end that first");
  }
  if (stream.id == 0) {
    throw Error(HP_INVALID_ARGUMENT, device_.name() +
                                         ": the default stream cannot capture a graph: use another stream, as in "
                                         "`with torch.Stream(device), graph:`");
  }
  stream.fault_record();  // allocated and initialized now: a capture cannot do it
  stream.wait();
  if (by_plugin_) begin_plugin_capture();
  attach(stream);
}

GraphCapture::~GraphCapture() {
  if (graph_ == nullptr) return;
  detach();
  try {
    if (plugin_captures_) end_plugin_capture(false);
  } catch (const std::exception&) {
    take_message();  // the caller has an error to report already
  }
}

std::unique_ptr<DeviceGraph> GraphCapture::finish() {
  detach();
  if (plugin_captures_) end_plugin_capture(refused_.empty());
  std::unique_ptr<DeviceGraph> graph = std::move(graph_);
  if (refused_.empty() && !draws_.all_used()) {
    refused_ = device_.name() +
               ": a graph capture cannot contain random numbers that reach no kernel as seed and offset: a replay "
               "could not draw new ones";
  }
  if (!refused_.empty()) throw Error(HP_INVALID_ARGUMENT, refused_);
  return graph;
}

// ---- Streams

void GraphCapture::attach(Stream& other) {
  device_.allocator().begin_pool(*graph_->pool, other);
  std::lock_guard<std::mutex> lock(mutex_);
  attached_.emplace_back(&other, other.handle());
  other.handle_.store(stream.handle(), std::memory_order_relaxed);
  other.capture_.store(this, std::memory_order_release);
}

void GraphCapture::join(Stream& other) {
  if (&other.device != &device_) refuse("a wait on " + other.device.name(), "a graph belongs to one device");
  if (other.capture() != nullptr) refuse("a wait on another capture", "two captures cannot wait for each other");
  attach(other);
}

void GraphCapture::detach() noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [each, handle] : attached_) {
    each->capture_.store(nullptr, std::memory_order_relaxed);
    each->handle_.store(handle, std::memory_order_relaxed);
    device_.allocator().end_pool(*each);
  }
  attached_.clear();
}

// ---- The plug-in's part

void GraphCapture::begin_plugin_capture() {
  HP_CHECK(device_.plugin.graphs.begin_capture(device_.index, stream.handle()),
           device_.name() + ": begin of a graph capture");
  plugin_captures_ = true;
  queued_ = 0;
}

void GraphCapture::end_plugin_capture(bool keep) {
  plugin_captures_ = false;
  HpGraph graph = nullptr;
  const HpStatus status =
      guarded([&] { return device_.plugin.graphs.end_capture(device_.index, stream.handle(), &graph); });
  if (!keep) take_message();
  if (status != HP_OK && keep) HP_CHECK(status, device_.name() + ": end of a graph capture");
  if (graph == nullptr) return;
  if (keep && queued_ != 0) {
    RecordedStep step(RecordedStep::kGraph, nullptr);
    step.graph = graph;
    std::lock_guard<std::mutex> lock(mutex_);
    graph_->steps.push_back(std::move(step));
  } else {
    if (guarded([&] { return device_.plugin.graphs.destroy(device_.index, graph); }) != HP_OK) take_message();
  }
}

// ---- Work

void GraphCapture::add(RecordedStep step) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (draws_.bind(step, 0)) {
      graph_->steps.push_back(std::move(step));
      return;
    }
  }
  refuse(step.op->name, "its random numbers do not come from the device's default generator");
}

bool GraphCapture::records_next_launch() {
  if (!by_plugin_) return true;
  std::lock_guard<std::mutex> lock(mutex_);
  if (!draws_.has_arguments()) queued_.fetch_add(1, std::memory_order_relaxed);
  return draws_.has_arguments();
}

bool GraphCapture::on_launch(Operator& op, const PortableKernel& kernel, int64_t groups, const HpLaunchArg* args,
                             uint32_t num_args) {
  if (!records_next_launch()) return false;
  Pause pause(*this);
  add(RecordedStep::of(op, kernel, groups, args, num_args));
  pause.end();
  return true;
}

bool GraphCapture::on_launch(const Operator& op, const Kernel& kernel, const TVMFFIAny* args, int32_t num_args,
                             const std::function<bool(const TVMFFIAny*)>& rehearse) {
  Pause pause(*this);
  // Whether a kernel declines depends on shapes, dtypes and alignment. So it runs once on zero-filled memory of the
  // same sizes, since zeros are valid indices, and the results are dropped.
  std::vector<TVMFFIAny> trial(args, args + num_args);
  std::vector<DLTensor> tensors;
  std::vector<std::pair<std::unique_ptr<Scratch>, size_t>> memory;  // and bytes
  size_t most = 0;
  tensors.reserve(trial.size());
  for (TVMFFIAny& value : trial) {
    if (value.type_index != kTVMFFIDLTensorPtr) continue;
    DLTensor& tensor = tensors.emplace_back(*static_cast<const DLTensor*>(value.v_ptr));
    value.v_ptr = &tensor;
    if (tensor.data == nullptr) continue;
    const size_t misaligned = reinterpret_cast<uintptr_t>(tensor.data) % 512;
    const size_t bytes = std::max<size_t>(1, misaligned + tensor.byte_offset + span_of(tensor));
    memory.emplace_back(std::make_unique<Scratch>(device_, static_cast<int64_t>(bytes)), bytes);
    tensor.data = static_cast<char*>(memory.back().first->get()) + misaligned;
    most = std::max(most, bytes);
  }
  const std::vector<char> zeros(most);
  const HpPlugin& table = device_.plugin.table;
  for (const auto& [scratch, bytes] : memory) {
    HP_CHECK(table.copy_to_device(device_.index, scratch->get(), zeros.data(), bytes, stream.handle()),
             device_.name() + ": copy to the device");
  }
  bool accepted = false;
  std::exception_ptr failure;
  try {
    accepted = rehearse(trial.data());
  } catch (...) {
    failure = std::current_exception();
  }
  if (device_.plugin.has_streams()) {
    HP_CHECK(device_.plugin.streams.synchronize(device_.index, stream.handle(), Runtime::timeout_ms()),
             device_.name() + ": kernel '" + kernel.name + "' of " + op.name + " in a graph capture");
  }
  if (failure) std::rethrow_exception(failure);
  if (!accepted) {
    on_decline();
  } else if (std::optional<RecordedStep> step = RecordedStep::of(op, kernel, args, num_args)) {
    add(std::move(*step));
  } else {
    refuse(op.name, "its kernel takes an argument that is valid only during the call");
  }
  pause.end();
  return accepted;
}

bool GraphCapture::on_copy(void* to, const void* from, size_t bytes) {
  if (by_plugin_) {
    queued_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  RecordedStep step(RecordedStep::kCopy, nullptr);
  step.to = to;
  step.from = from;
  step.bytes = bytes;
  std::lock_guard<std::mutex> lock(mutex_);
  graph_->steps.push_back(std::move(step));
  return true;
}

bool GraphCapture::on_fill(void* to, uint8_t value, size_t bytes) {
  if (by_plugin_ && device_.plugin.table.fill_memory != nullptr) {
    queued_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  Pause pause(*this);  // without fill_memory, a fill begins with a copy from the host
  RecordedStep step(RecordedStep::kFill, nullptr);
  step.to = to;
  step.value = value;
  step.bytes = bytes;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    graph_->steps.push_back(std::move(step));
  }
  pause.end();
  return true;
}

void GraphCapture::on_launch_with_options(const Operator& op) {
  if (records_next_launch()) refuse(op.name, "it is launched with options, which the host cannot repeat");
}

void* GraphCapture::fault_record() {
  std::lock_guard<std::mutex> lock(mutex_);
  graph_->fault_stream = &stream;
  return stream.fault_.arm(stream);
}

// ---- Random numbers

void GraphCapture::on_draw(PhiloxState state, uint64_t blocks) {
  std::lock_guard<std::mutex> lock(mutex_);
  draws_.draw(state, blocks);
  graph_->draws.push_back(blocks);
}

void GraphCapture::on_random_arguments(uint32_t argument, PhiloxState state) {
  std::lock_guard<std::mutex> lock(mutex_);
  draws_.add_arguments(argument, state);
}

void GraphCapture::on_decline() {
  std::lock_guard<std::mutex> lock(mutex_);
  draws_.drop_arguments();
}

// ---- Refusals

void GraphCapture::refuse(const std::string& op, const std::string& why) {
  const std::string message = device_.name() + ": a graph capture cannot contain " + op + ": " + why +
                              ". Captured work runs only when the graph is replayed: move this out of the capture.";
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (refused_.empty()) refused_ = message;
  }
  throw Error(HP_INVALID_ARGUMENT, message);
}

void GraphCapture::refuse(const std::string& why) {
  const Operator* op = current_operator();
  if (op == nullptr) op = stream.last_operator();
  refuse(op != nullptr ? op->name : "this operator", why);
}

void GraphCapture::refuse_wait() {
  const Operator* op = current_operator();
  refuse(op != nullptr ? op->name : "a synchronization", "it waits for the device");
}

}  // namespace hp
