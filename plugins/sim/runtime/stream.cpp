#include "runtime/stream.h"

#include <unistd.h>

#include <cstdio>
#include <thread>
#include <vector>

#include "memory/device_memory.h"
#include "runtime/threads.h"

namespace sim {

namespace {

using Clock = std::chrono::steady_clock;

int64_t now_ns() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }

std::atomic<int> num_workers{0};

// How long a thread spins before it sleeps. More spinning threads than cores only slow each other down.
std::chrono::nanoseconds spin_time() {
  static const int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const int workers = num_workers.load(std::memory_order_relaxed);
  return std::chrono::nanoseconds(workers < cores ? 5000 : 500);
}

}  // namespace

bool Stream::try_reuse() {
  if (!idle()) return false;
  std::lock_guard<std::mutex> lock(error_mutex_);
  error_.reset();
  has_error_.store(false, std::memory_order_relaxed);
  in_use_.store(true, std::memory_order_relaxed);
  return true;
}

bool Stream::begin_capture() {
  std::lock_guard<std::mutex> lock(mutex_);
  return !std::exchange(capturing_, true);
}

std::vector<CapturedTask> Stream::end_capture() {
  std::lock_guard<std::mutex> lock(mutex_);
  capturing_ = false;
  return std::exchange(captured_, {});
}

void Stream::record_error(HpStatus status, const char* operator_name, const char* what) {
  char text[64];
  snprintf(text, sizeof text, "sim:%d stream %d: ", device_, number_);
  const std::string message = *operator_name ? "operator '" + std::string(operator_name) + "' failed on " + text + what
                                             : text + std::string(what);
  inherit_error(std::make_shared<StreamError>(status, message));
}

StreamErrorPtr Stream::error() {
  if (!has_error_.load(std::memory_order_acquire)) return nullptr;
  std::lock_guard<std::mutex> lock(error_mutex_);
  return error_;
}

void Stream::inherit_error(StreamErrorPtr error) {
  std::lock_guard<std::mutex> lock(error_mutex_);
  if (error_ && !error_->reported) return;
  error_ = std::move(error);
  has_error_.store(true, std::memory_order_release);
}

TaskTrace Stream::trace_task(uint64_t launch, TaskKind kind) {
  const HpTraceKind shown = kind == TaskKind::copy            ? HP_TRACE_COPY
                            : kind == TaskKind::fill          ? HP_TRACE_FILL
                            : kind == TaskKind::communication ? HP_TRACE_COLLECTIVE
                                                              : HP_TRACE_KERNEL;
  return {launch, shown, device_, number_ == 0 ? nullptr : reinterpret_cast<HpStream>(this)};
}

bool Stream::apply_faults(const InjectedFaults& injected, TaskKind kind, const char* operator_name) {
  if (injected.hang != 0) hang(injected.hang);
  if (injected.failure == 0) return false;
  record_error(HP_ERROR, operator_name,
               kind == TaskKind::copy || kind == TaskKind::fill ? "injected copy failure" : "injected kernel failure");
  return true;
}

Stream::Slot& Stream::wait_for_slot(std::unique_lock<std::mutex>& lock) {
  if (!ring_) start_worker();
  if (tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_acquire) >= kSlots) {
    ++waiters_;
    work_done_.wait(lock, [this] { return tail_.load() - head_.load() < kSlots; });
    --waiters_;
  }
  return ring_[tail_.load(std::memory_order_relaxed) % kSlots];
}

void Stream::publish() {
  tail_.store(tail_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  if (worker_sleeps_) work_ready_.notify_one();
}

void Stream::start_worker() {
  std::unique_ptr<Slot[]> ring(new Slot[kSlots]);
  device_used.store(true, std::memory_order_relaxed);
  num_workers.fetch_add(1, std::memory_order_relaxed);
  char name[16];
  snprintf(name, sizeof name, "sim:%d/%d", device_, number_);
  start_thread(name, [this] { run_worker(); });
  ring_ = std::move(ring);
}

void Stream::wait_for_work() {
  const uint64_t head = head_.load(std::memory_order_relaxed);
  const auto ready = [this, head] { return tail_.load(std::memory_order_acquire) != head; };
  if (ready() || spin_until(spin_time(), ready)) return;
  std::unique_lock<std::mutex> lock(mutex_);
  worker_sleeps_ = true;
  work_ready_.wait(lock, ready);
  worker_sleeps_ = false;
}

void Stream::jitter(uint64_t ticket) const {
  // splitmix64 of seed, stream and task number: the same seed gives the same delays.
  uint64_t x =
      config.jitter_seed + (ticket + 1) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(device_ * 4096 + number_);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  std::this_thread::sleep_for(std::chrono::microseconds((x ^ (x >> 31)) % 201));
}

void Stream::run_worker() {
  for (;;) {
    wait_for_work();
    const uint64_t head = head_.load(std::memory_order_relaxed);
    Slot& slot = ring_[head % kSlots];
    running_since_.store(now_ns(), std::memory_order_relaxed);
    running_operator_.store(slot.operator_name, std::memory_order_relaxed);
    if (config.jitter) jitter(head);
    TaskTrace trace = trace_task(slot.launch, slot.kind);
    try {
      slot.run(slot.work, apply_faults(slot.injected, slot.kind, slot.operator_name));
    } catch (const StatusError& e) {
      record_error(e.status, slot.operator_name, e.what());
    } catch (const std::exception& e) {
      record_error(HP_ERROR, slot.operator_name, e.what());
    }
    trace.finish();  // before anybody can know that the task is done
    std::lock_guard<std::mutex> lock(mutex_);
    head_.store(head + 1, std::memory_order_release);
    if (waiters_ > 0) work_done_.notify_all();
  }
}

HpStatus Stream::timeout_error(uint64_t target) const {
  const char* const name = running_operator_.load(std::memory_order_relaxed);
  const uint64_t behind = target - head_.load(std::memory_order_relaxed) - 1;
  return host->fail(HP_TIMEOUT,
                    "operator '%s' has been running for %lld ms on sim:%d stream %d; %llu more tasks wait behind it",
                    name ? name : "", static_cast<long long>((now_ns() - running_since_.load()) / 1000000), device_,
                    number_, static_cast<unsigned long long>(behind));
}

HpStatus Stream::synchronize(uint32_t timeout_ms) {
  const uint64_t target = tail_.load(std::memory_order_acquire);
  const auto done = [this, target] { return head_.load(std::memory_order_acquire) >= target; };
  if (!done() && !spin_until(spin_time(), done)) {
    std::unique_lock<std::mutex> lock(mutex_);
    ++waiters_;
    bool in_time = true;
    if (timeout_ms == 0) {
      work_done_.wait(lock, done);
    } else {
      in_time = work_done_.wait_for(lock, std::chrono::milliseconds(timeout_ms), done);
    }
    --waiters_;
    if (!in_time) return timeout_error(target);
  }
  if (!has_error_.load(std::memory_order_acquire)) return HP_OK;
  std::unique_lock<std::mutex> lock(error_mutex_);
  const StreamErrorPtr failure = std::move(error_);
  error_ = nullptr;
  has_error_.store(false, std::memory_order_relaxed);
  lock.unlock();
  return failure ? failure->report() : HP_OK;
}

namespace {

// Never destroyed: workers run until the process exits.
struct DeviceStreams {
  Stream* default_stream;
  std::mutex mutex;
  std::vector<Stream*> created, retired;
};
DeviceStreams* device_streams;

}  // namespace

void create_default_streams() {
  device_streams = new DeviceStreams[static_cast<size_t>(config.devices)];
  for (int device = 0; device < config.devices; ++device) device_streams[device].default_stream = new Stream(device, 0);
}

Stream* find_stream(int device, HpStream handle) {
  if (!valid_device(device)) {
    no_such_device(device);
    return nullptr;
  }
  if (!handle) return device_streams[device].default_stream;
  Stream* const stream = reinterpret_cast<Stream*>(handle);
  if (stream->device() == device && stream->in_use()) return stream;
  host->fail(HP_INVALID_ARGUMENT,
             stream->in_use() ? "stream %p belongs to sim:%d, not to sim:%d" : "stream %p of sim:%d was destroyed",
             static_cast<void*>(handle), stream->device(), device);
  return nullptr;
}

HpStatus create_stream(int device, int, HpStream* handle) {
  if (!valid_device(device)) return no_such_device(device);
  DeviceStreams& streams = device_streams[device];
  std::lock_guard<std::mutex> lock(streams.mutex);
  Stream* stream = nullptr;
  for (Stream*& candidate : streams.retired) {
    if (!candidate->try_reuse()) continue;
    stream = std::exchange(candidate, streams.retired.back());
    streams.retired.pop_back();
    break;
  }
  if (!stream) {
    stream = new Stream(device, static_cast<int>(streams.created.size()) + 1);
    streams.created.push_back(stream);
  }
  *handle = reinterpret_cast<HpStream>(stream);
  return HP_OK;
}

HpStatus destroy_stream(int device, HpStream handle) {
  Stream* const stream = find_stream(device, handle);
  if (!stream) return HP_INVALID_ARGUMENT;
  if (!handle) return host->fail(HP_INVALID_ARGUMENT, "the default stream of sim:%d cannot be destroyed", device);
  DeviceStreams& streams = device_streams[device];
  std::lock_guard<std::mutex> lock(streams.mutex);
  stream->retire();
  streams.retired.push_back(stream);
  return HP_OK;
}

HpStatus synchronize_stream(int device, HpStream handle, uint32_t timeout_ms) {
  Stream* const stream = find_stream(device, handle);
  return stream ? stream->synchronize(timeout_ms) : HP_INVALID_ARGUMENT;
}

HpStatus call_host(int device, HpStream handle, void (*function)(void* data), void* data) {
  Stream* const stream = find_stream(device, handle);
  if (!stream) return HP_INVALID_ARGUMENT;
  stream->submit(TaskKind::marker, false, [=] { function(data); });
  return HP_OK;
}

HpStatus query_stream(int device, HpStream handle) {
  const Stream* const stream = find_stream(device, handle);
  if (!stream) return HP_INVALID_ARGUMENT;
  return stream->idle() ? HP_OK : HP_NOT_READY;
}

}  // namespace sim
