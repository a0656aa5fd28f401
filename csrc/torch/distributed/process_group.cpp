// Connections, call order and coalescing. The collectives are in data_movement.cpp, reductions.cpp and
// point_to_point.cpp.
#include "distributed/process_group.h"

#include <c10/core/StreamGuard.h>

namespace hp::torch_adapter {
namespace {

std::vector<uint8_t> to_bytes(const std::string& text) { return {text.begin(), text.end()}; }

void record_use(const Tensors& tensors, const c10::Stream& stream) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.has_storage() && tensor.device() == stream.device()) tensor.record_stream(stream);
  }
}

}  // namespace

ProcessGroup::ProcessGroup(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout,
                           c10::intrusive_ptr<c10d::Backend> gloo, bool staged)
    : Backend(rank, size),
      store_(std::move(store)),
      timeout_(timeout),
      staged_only_(staged || !Communicator::provided(*runtime().plugin)),
      staging_(std::make_shared<Staging>(store_, std::move(gloo))) {}

ProcessGroup::~ProcessGroup() {
  for (auto& [index, connection] : connections_) {
    if (connection.communicator != nullptr) connection.communicator->abort();
  }
}

c10::intrusive_ptr<c10d::Backend::Options> ProcessGroup::getBackendOptions() {
  return c10::make_intrusive<Options>("hardpoint", timeout_);
}

void ProcessGroup::setTimeout(std::chrono::milliseconds timeout) {
  timeout_ = timeout;
  staging_->gloo().setTimeout(timeout);
}

void ProcessGroup::abort() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto& [index, connection] : connections_) {
      if (connection.communicator != nullptr) connection.communicator->abort();
    }
  }
  staging_->abort();
}

void ProcessGroup::shutdown() {
  staging_->drain();
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [index, connection] : connections_) {
    if (connection.communicator == nullptr) continue;
    try {
      for (Stream* stream : connection.streams) stream->wait();
      connection.communicator.reset();
    } catch (const Error&) {
      connection.communicator->abort();
    }
  }
}

// ---- Connections

void ProcessGroup::eagerConnectSingleDevice(at::Device device) {
  std::lock_guard<std::mutex> lock(mutex_);
  point_to_point_ = connection(device_at(device.index())).communicator != nullptr &&
                    runtime().plugin->collectives.send != nullptr && runtime().plugin->collectives.receive != nullptr;
}

void ProcessGroup::setGroupUid(const std::string& uid) {
  Backend::setGroupUid(uid);
  if (const auto device = getBoundDeviceId()) eagerConnectSingleDevice(*device);
}

ProcessGroup::Connection& ProcessGroup::connection(Device& device) {
  const auto found = connections_.find(device.index);
  if (found != connections_.end()) return found->second;
  Connection created;
  for (Stream*& stream : created.streams) stream = &device.pool_stream(-1);
  // Ranks connect their devices in the same order, so the key is a count; device indices may differ between ranks.
  if (!staged_only_) created.communicator = connect(device, "device" + std::to_string(connections_.size()));
  return connections_.emplace(device.index, std::move(created)).first->second;
}

std::unique_ptr<Communicator> ProcessGroup::connect(Device& device, const std::string& key) {
  Communicator::Id id{};
  if (getRank() == 0) {
    id = Communicator::new_id(device.plugin);
    store_->set(key + "/id", std::vector<uint8_t>(id.begin(), id.end()));
  } else {
    const std::vector<uint8_t> received = store_->get(key + "/id");
    TORCH_CHECK(received.size() == id.size(), "cannot connect the process group: its id has ", received.size(),
                " bytes, expected ", id.size(), "; install the same version of Hardpoint on all ranks");
    std::copy(received.begin(), received.end(), id.begin());
  }
  // Either all ranks use the plug-in, or none.
  const bool can = Communicator::can_join(device, id);
  store_->set(key + "/can" + std::to_string(getRank()), to_bytes(can ? "yes" : "no"));
  bool all = true;
  for (int peer = 0; peer < getSize(); ++peer) {
    all = store_->get(key + "/can" + std::to_string(peer)) == to_bytes("yes") && all;
  }
  if (!all) return nullptr;
  return std::make_unique<Communicator>(device, id, getRank(), getSize(), static_cast<uint32_t>(timeout_.count()));
}

// ---- Calls

ProcessGroup::WorkPtr ProcessGroup::run(CommCall call, bool blocking) {
  std::lock_guard<std::mutex> lock(mutex_);
  const at::Tensor& first = call.inputs.empty() ? call.outputs.at(0) : call.inputs[0];
  auto work = c10::make_intrusive<DeviceWork>(getRank(), call.type, first.device(), call.results, blocking);
  call.number = calls_[static_cast<int>(call.kind)]++;
  call.work = work;
  work->set_source(call.source);
  if (coalescing_) {
    coalesced_calls_.push_back(std::move(call));
  } else {
    start(call);
  }
  return work;
}

void ProcessGroup::startCoalescing() {
  std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(!coalescing_, "startCoalescing: collectives are already being coalesced");
  coalescing_ = true;
}

ProcessGroup::WorkPtr ProcessGroup::endCoalescing() {
  std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(coalescing_, "endCoalescing without startCoalescing");
  coalescing_ = false;
  std::vector<CommCall> calls = std::move(coalesced_calls_);
  coalesced_calls_.clear();
  if (calls.empty()) return nullptr;
  std::vector<WorkPtr> works;
  for (const CommCall& call : calls) works.push_back(call.work);
  start(calls);
  return c10::make_intrusive<CoalescedWork>(getRank(), c10d::OpType::COALESCED, std::move(works));
}

ProcessGroup::WorkPtr ProcessGroup::coalesced(size_t count, const std::function<WorkPtr(size_t)>& each) {
  const bool nested = coalescing_;
  if (!nested) startCoalescing();
  WorkPtr last;
  try {
    for (size_t i = 0; i < count; ++i) last = each(i);
  } catch (...) {
    if (!nested) {
      std::lock_guard<std::mutex> lock(mutex_);
      coalescing_ = false;
      coalesced_calls_.clear();
    }
    throw;
  }
  return nested ? last : endCoalescing();
}

void ProcessGroup::start(c10::ArrayRef<CommCall> calls) {
  // Coalesced calls run on one stream.
  const CommCall& first = calls.front();
  const at::Device device = first.work->device();
  Connection& connected = connection(device_at(device.index()));
  const bool as_group = calls.size() > 1;
  Stream& stream = *connected.streams[as_group ? 0 : static_cast<int>(first.kind)];
  const c10::Stream torch_stream = to_torch(stream);

  // The caller's stream has produced the inputs and freed the outputs at this point.
  c10::Event begin(kDeviceType);
  begin.record(to_torch(current_stream(stream.device)));
  begin.block(torch_stream);
  for (const CommCall& call : calls) {
    record_use(call.inputs, torch_stream);
    record_use(call.outputs, torch_stream);
    record_use(call.results, torch_stream);
  }

  std::vector<bool> done(calls.size(), false);
  if (connected.communicator != nullptr) {
    Communicator& communicator = *connected.communicator;
    if (as_group) communicator.start_group();
    for (size_t i = 0; i < calls.size(); ++i) {
      const CommCall& call = calls[i];
      const bool through_plugin = call.native && (call.kind == CommCall::Kind::kCollective || point_to_point_);
      const OperatorScope scope(call.op);
      done[i] = through_plugin && call.native(communicator, stream);
    }
    if (as_group) communicator.end_group();
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const CommCall& call = calls[i];
    call.op.count(done[i] ? Tier::kVendor : Tier::kCpu);
    if (!done[i]) {
      staging_->run(call, torch_stream);
      continue;
    }
    const c10::StreamGuard guard(torch_stream);
    if (call.finish) call.finish();
    call.work->queued(torch_stream);
  }
}

}  // namespace hp::torch_adapter
