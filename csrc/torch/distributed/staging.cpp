#include "distributed/staging.h"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>

#include <chrono>
#include <future>
#include <sstream>

namespace hp::torch_adapter {
namespace {

const char* reduction_name(int reduction) {
  constexpr const char* kNames[] = {"sum", "mean", "product", "min", "max", "and", "or", "xor", "scaled sum"};
  return reduction >= 0 && reduction < static_cast<int>(std::size(kNames)) ? kNames[reduction] : "?";
}

// Names are at most 16 bytes long, and are compared as two integers.
int64_t name_as_number(const std::string& name) {
  int64_t number = 0;
  std::memcpy(&number, name.data(), std::min(name.size(), sizeof(number)));
  return number;
}

constexpr int kEncodedSize = 6;  // a call's name and signature, as exchanged between ranks
using EncodedCall = std::array<int64_t, kEncodedSize>;

EncodedCall encode(const CommCall& call) {
  const std::string name = call.name;
  return {name_as_number(name),     name_as_number(name.substr(std::min<size_t>(8, name.size()))),
          call.signature.size,      static_cast<int64_t>(call.signature.dtype),
          call.signature.reduction, call.signature.root};
}

std::string describe_encoded(const EncodedCall& encoded) {
  char name[2 * sizeof(int64_t) + 1] = {};
  std::memcpy(name, encoded.data(), 2 * sizeof(int64_t));
  Signature signature{encoded[2], static_cast<c10::ScalarType>(encoded[3]), static_cast<int>(encoded[4]),
                      static_cast<int>(encoded[5])};
  return std::string(name) + " " + signature.text();
}

at::Tensor to_tensor(const EncodedCall& encoded) {
  at::Tensor tensor = at::empty({kEncodedSize}, at::kLong);
  std::memcpy(tensor.mutable_data_ptr(), encoded.data(), sizeof(encoded));
  return tensor;
}

EncodedCall from_tensor(const at::Tensor& tensor) {
  EncodedCall encoded;
  std::memcpy(encoded.data(), tensor.const_data_ptr(), sizeof(encoded));
  return encoded;
}

c10::DistBackendError aborted_error(const CommCall& call, int rank) {
  return {{__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
          c10::str("rank ", rank, ": ", call.name, " #", call.number, " ", call.signature.text(), " was aborted")};
}

// How long to wait for other ranks to report their calls.
constexpr std::chrono::milliseconds kDiagnosis(1000);

std::string others(int rank, int size) {
  std::string list;
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank) list += (list.empty() ? "" : ", ") + std::to_string(peer);
  }
  return "The other ranks in the call: " + list + ".";
}

at::Tensor pinned_like(const at::Tensor& tensor) {
  return at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(true));
}

}  // namespace

std::string Signature::text() const {
  std::ostringstream text;
  text << "of " << size << " " << c10::toString(dtype);
  if (reduction >= 0) text << " (" << reduction_name(reduction) << ")";
  if (root >= 0) text << " with root " << root;
  return text.str();
}

// ---- WorkerThread

WorkerThread::~WorkerThread() {
  bool busy;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    state_->stop = true;
    state_->jobs.clear();
    busy = state_->busy;
  }
  state_->changed.notify_all();
  if (!thread_.joinable()) return;
  busy ? thread_.detach() : thread_.join();
}

void WorkerThread::push(std::function<void()> job) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->jobs.push_back(std::move(job));
  if (!thread_.joinable()) thread_ = std::thread(run, state_);
  state_->changed.notify_all();
}

void WorkerThread::drain() {
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->jobs.empty() && !state_->busy; });
}

void WorkerThread::run(const std::shared_ptr<State>& state) {
  std::unique_lock<std::mutex> lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->stop || !state->jobs.empty(); });
    if (state->stop) return;
    std::function<void()> job = std::move(state->jobs.front());
    state->jobs.pop_front();
    state->busy = true;
    lock.unlock();
    job();
    job = {};  // may hold the last reference to the owner of this thread
    lock.lock();
    state->busy = false;
    state->changed.notify_all();
  }
}

// ---- Staging

Staging::Staging(c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<c10d::Backend> gloo)
    : store_(std::move(store)), gloo_(std::move(gloo)) {}

void Staging::drain() {
  for (WorkerThread& thread : threads_) thread.drain();
}

void Staging::abort() {
  std::list<CommCall> pending;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    aborted_ = true;
    pending.swap(pending_);
  }
  for (const CommCall& call : pending)
    call.work->failed(std::make_exception_ptr(aborted_error(call, gloo_->getRank())));
}

void Staging::run(const CommCall& call, const c10::Stream& stream) {
  auto inputs = std::make_shared<Tensors>();
  auto outputs = std::make_shared<Tensors>();
  auto ready = std::make_shared<c10::Event>(stream.device_type());
  {
    const c10::StreamGuard guard(stream);
    for (const at::Tensor& input : call.inputs) {
      inputs->push_back(pinned_like(input));
      inputs->back().copy_(input, true);
    }
    for (const at::Tensor& output : call.outputs) {
      const auto same = std::find_if(call.inputs.begin(), call.inputs.end(),
                                     [&](const at::Tensor& input) { return input.is_same(output); });
      outputs->push_back(same == call.inputs.end() ? pinned_like(output) : (*inputs)[same - call.inputs.begin()]);
    }
    ready->record(stream);
  }
  std::list<CommCall>::iterator entry;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (aborted_) throw aborted_error(call, gloo_->getRank());
    entry = pending_.insert(pending_.end(), call);
  }
  thread_for(call.kind).push([self = shared_from_this(), call, stream, inputs, outputs, ready, entry] {
    std::exception_ptr error;
    try {
      ready->synchronize();
      self->run_on_host(call, stream, *inputs, *outputs);
    } catch (...) {
      error = std::current_exception();
    }
    {
      std::lock_guard<std::mutex> lock(self->mutex_);
      if (self->aborted_) return;
      self->pending_.erase(entry);
    }
    error ? call.work->failed(error) : call.work->queued(stream);
  });
}

void Staging::run_on_host(const CommCall& call, const c10::Stream& stream, Tensors& inputs, Tensors& outputs) {
  try {
    check_same_call(call);
    call.staged(*gloo_, inputs, outputs);
  } catch (const c10::ValueError&) {
    throw;  // raised by this backend: complete as it is
  } catch (const std::exception& error) {
    TORCH_CHECK_WITH(DistBackendError, false, "rank ", gloo_->getRank(), ": ", call.name, " #", call.number, " ",
                     call.signature.text(), " failed. ", diagnosis(call), " The transport reports: ", error.what());
  }
  const c10::StreamGuard guard(stream);
  for (size_t i = 0; i < outputs.size(); ++i) call.outputs[i].copy_(outputs[i], true);
  if (call.finish) call.finish();
}

void Staging::check_same_call(const CommCall& call) {
  const EncodedCall own = encode(call);
  if (call.kind != CommCall::Kind::kCollective) return;  // the receiver compares the header of a message
  Tensors sent = {to_tensor(own)};
  std::vector<Tensors> received(1);
  for (int peer = 0; peer < gloo_->getSize(); ++peer) received[0].push_back(at::empty({kEncodedSize}, at::kLong));
  gloo_->allgather(received, sent, c10d::AllgatherOptions())->wait();
  for (int peer = 0; peer < gloo_->getSize(); ++peer) {
    const EncodedCall other = from_tensor(received[0][peer]);
    TORCH_CHECK_VALUE(other == own, "rank ", gloo_->getRank(), " calls ", describe_encoded(own), " as collective #",
                      call.number, " of its group, but rank ", peer, " calls ", describe_encoded(other),
                      ": all processes must make the same calls in the same order");
  }
}

std::string Staging::diagnosis(const CommCall& call) noexcept {
  if (call.kind != CommCall::Kind::kCollective) {
    return "The other process is rank " + std::to_string(call.peer) + ".";
  }
  // On its own thread: if the store is unreachable, its calls may block forever.
  std::promise<std::string> answer;
  std::future<std::string> report = answer.get_future();
  std::thread([self = shared_from_this(), call, answer = std::move(answer)]() mutable {
    try {
      answer.set_value(self->query_peers(call));
    } catch (...) {
      answer.set_exception(std::current_exception());
    }
  }).detach();
  try {
    if (report.wait_for(2 * kDiagnosis) == std::future_status::ready) return report.get();
  } catch (const std::exception&) {
  }
  return "The store is unreachable too: its process (rank 0 without torchrun) or the network may be down. " +
         others(gloo_->getRank(), gloo_->getSize());
}

std::string Staging::query_peers(const CommCall& call) {
  const std::string prefix = "stuck/" + std::to_string(call.number) + "/";
  const std::string text = std::string(call.name) + " " + call.signature.text();
  store_->set(prefix + std::to_string(gloo_->getRank()), std::vector<uint8_t>(text.begin(), text.end()));
  std::string missing;
  const auto deadline = std::chrono::steady_clock::now() + kDiagnosis;
  for (int peer = 0; peer < gloo_->getSize(); ++peer) {
    const std::vector<std::string> key = {prefix + std::to_string(peer)};
    bool there = store_->check(key);
    while (!there && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      there = store_->check(key);
    }
    if (!there) missing += (missing.empty() ? "" : ", ") + std::to_string(peer);
  }
  if (missing.empty()) return "All ranks made the call, but the connection between them broke.";
  return "Rank " + missing + " did not make the call: late, stuck elsewhere, or gone.";
}

}  // namespace hp::torch_adapter
