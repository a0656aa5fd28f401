#include "runtime/event.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "host.h"
#include "runtime/stream.h"

namespace sim {

namespace {

using Clock = std::chrono::steady_clock;

// One record of an event. A queued wait keeps its own record, even if the event is recorded again or destroyed.
class Marker {
 public:
  void reach(StreamErrorPtr error) {
    std::lock_guard<std::mutex> lock(mutex_);
    time_ = Clock::now();
    error_ = std::move(error);
    reached_.store(true, std::memory_order_release);
    changed_.notify_all();
  }
  bool reached() const { return reached_.load(std::memory_order_acquire); }
  // Waits until reached; 0 means no timeout. Returns false on timeout.
  bool wait(uint32_t timeout_ms) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto done = [this] { return reached(); };
    if (timeout_ms != 0) return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), done);
    changed_.wait(lock, done);
    return true;
  }
  // Valid once reached.
  Clock::time_point time() const { return time_; }
  const StreamErrorPtr& error() const { return error_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> reached_{false};
  Clock::time_point time_;
  StreamErrorPtr error_;  // of the work before the marker
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
  stream->submit(TaskKind::marker, true, [marker, stream] { marker->reach(stream->error()); });
  // Publish the marker after it is queued: a wait must never refer to a marker that is in no queue.
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
    if (marker.error()) stream->inherit_error(marker.error());
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
  if (marker->reached() || marker->wait(timeout_ms)) return marker->error() ? marker->error()->report() : HP_OK;
  return host->fail(HP_TIMEOUT, "an event of sim:%d was not reached within %u ms", device, timeout_ms);
}

HpStatus query_event(int, HpEvent handle) {
  const auto marker = event_of(handle).latest();
  return !marker || marker->reached() ? HP_OK : HP_NOT_READY;
}

HpStatus elapsed_between(int device, HpEvent start, HpEvent end, double* milliseconds) {
  if (!event_of(start).with_timing || !event_of(end).with_timing)
    return host->fail(HP_INVALID_ARGUMENT, "sim:%d: elapsed time of an event that was created without timing", device);
  const auto first = event_of(start).latest(), last = event_of(end).latest();
  if (!first || !last || !first->reached() || !last->reached())
    return host->fail(HP_INVALID_ARGUMENT,
                      "sim:%d: elapsed time of an event that was not reached: synchronize it first", device);
  *milliseconds = std::chrono::duration<double, std::milli>(last->time() - first->time()).count();
  return HP_OK;
}

}  // namespace sim
