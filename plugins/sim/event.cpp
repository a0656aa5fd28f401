#include "event.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "host.h"
#include "stream.h"

namespace sim {

namespace {

using Clock = std::chrono::steady_clock;

// One record of an event. Queued waits hold on to the record they were made for, whatever becomes of the event.
class Marker {
 public:
  void reach(FailurePointer failure) {
    std::lock_guard<std::mutex> lock(mutex_);
    time_ = Clock::now();
    failure_ = std::move(failure);
    reached_.store(true, std::memory_order_release);
    changed_.notify_all();
  }
  bool reached() const { return reached_.load(std::memory_order_acquire); }
  // 0 waits for ever.
  bool wait(uint32_t timeout_ms) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto done = [this] { return reached(); };
    if (timeout_ms != 0) return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), done);
    changed_.wait(lock, done);
    return true;
  }
  // Once reached.
  Clock::time_point time() const { return time_; }
  const FailurePointer& failure() const { return failure_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> reached_{false};
  Clock::time_point time_;
  FailurePointer failure_;  // of the work before it
};

struct Event {
  explicit Event(bool with_timing) : with_timing(with_timing) {}

  std::shared_ptr<Marker> latest() {
    std::lock_guard<std::mutex> lock(mutex);
    return marker;
  }

  const bool with_timing;
  std::mutex mutex;
  std::shared_ptr<Marker> marker;  // null until the first record
};

Event& event_of(HpEvent handle) { return *reinterpret_cast<Event*>(handle); }

}  // namespace

HpStatus create_event(int device, int with_timing, HpEvent* handle) {
  if (!find_stream(device, nullptr)) return HP_INVALID_ARGUMENT;
  *handle = reinterpret_cast<HpEvent>(new Event(with_timing != 0));
  return HP_OK;
}

HpStatus destroy_event(int, HpEvent handle) {
  delete &event_of(handle);
  return HP_OK;
}

HpStatus record_event(int device, HpEvent handle, HpStream stream_handle) {
  Stream* const stream = find_stream(device, stream_handle);
  if (!stream) return HP_INVALID_ARGUMENT;
  Event& event = event_of(handle);
  auto marker = std::make_shared<Marker>();
  stream->submit(TaskKind::marker, true, [marker, stream] { marker->reach(stream->failure()); });
  // Only now may others wait for it: a wait must always find its record already in a queue.
  std::lock_guard<std::mutex> lock(event.mutex);
  event.marker = std::move(marker);
  return HP_OK;
}

HpStatus wait_event(int device, HpEvent handle, HpStream stream_handle) {
  Stream* const stream = find_stream(device, stream_handle);
  if (!stream) return HP_INVALID_ARGUMENT;
  auto marker = event_of(handle).latest();
  if (!marker) return HP_OK;
  const auto reached = [stream](const Marker& marker) {
    if (marker.failure()) stream->inherit(marker.failure());
  };
  if (marker->reached()) {
    reached(*marker);
    return HP_OK;
  }
  stream->submit(TaskKind::marker, false, [marker = std::move(marker), reached] {
    marker->wait(0);
    reached(*marker);
  });
  return HP_OK;
}

HpStatus synchronize_event(int device, HpEvent handle, uint32_t timeout_ms) {
  const auto marker = event_of(handle).latest();
  if (!marker) return HP_OK;
  if (marker->reached() || marker->wait(timeout_ms)) return marker->failure() ? marker->failure()->report() : HP_OK;
  return host->fail(HP_TIMEOUT, "an event of sim:%d was not reached within %u ms", device, timeout_ms);
}

HpStatus query_event(int, HpEvent handle) {
  const auto marker = event_of(handle).latest();
  return !marker || marker->reached() ? HP_OK : HP_NOT_READY;
}

HpStatus elapsed_between(int device, HpEvent start, HpEvent end, double* milliseconds) {
  if (!event_of(start).with_timing || !event_of(end).with_timing)
    return host->fail(HP_INVALID_ARGUMENT, "sim:%d: elapsed time of an event that was made without timing", device);
  const auto first = event_of(start).latest(), last = event_of(end).latest();
  if (!first || !last || !first->reached() || !last->reached())
    return host->fail(HP_INVALID_ARGUMENT,
                      "sim:%d: elapsed time of an event that was not reached: synchronize it first", device);
  *milliseconds = std::chrono::duration<double, std::milli>(last->time() - first->time()).count();
  return HP_OK;
}

}  // namespace sim
