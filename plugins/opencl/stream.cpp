#include "stream.h"

#include <unistd.h>

#include <chrono>
#include <mutex>
#include <new>
#include <utility>

#include "device.h"
#include "host.h"

namespace ocl {

struct Stream {
  std::mutex mutex;
  cl_command_queue queue = nullptr;
  cl_event last = nullptr;  // event of the latest command; the queue is in order, so it completes last
};

namespace {

struct Event {
  bool with_timing = false;
  std::mutex mutex;
  cl_event done = nullptr;  // event of the latest record; null: nothing to wait for
};

Stream default_streams[kMaxDevices];

// Owns a reference to an OpenCL event, or null. Copies the event under the lock that guards it.
class EventReference {
 public:
  EventReference(std::mutex& mutex, const cl_event& event) {
    std::lock_guard<std::mutex> lock(mutex);
    event_ = event;
    if (event_) cl.retain_event(event_);
  }
  EventReference(const EventReference&) = delete;
  EventReference& operator=(const EventReference&) = delete;
  ~EventReference() {
    if (event_) cl.release_event(event_);
  }
  operator cl_event() const { return event_; }
  cl_event release() { return std::exchange(event_, nullptr); }

 private:
  cl_event event_ = nullptr;
};

HpStatus open_queue(int device, Stream& stream) {
  Device* d = nullptr;
  if (HpStatus status = find_device(device, &d)) return status;
  const cl_bitfield settings[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
  cl_int result = CL_SUCCESS;
  stream.queue = cl.create_queue(d->context, d->id, settings, &result);
  OCL_CHECK(device, result, "creating a queue");
  return HP_OK;
}

HpStatus find_stream(int device, HpStream handle, Stream** stream) {
  Device* d = nullptr;
  if (HpStatus status = find_device(device, &d)) return status;
  *stream = handle ? reinterpret_cast<Stream*>(handle) : &default_streams[device];
  return HP_OK;
}

// HP_OK if the event is complete, HP_NOT_READY if not, or the error of its command.
HpStatus event_status(int device, cl_event event, const char* what) {
  if (!event) return HP_OK;
  cl_int status = CL_COMPLETE;
  OCL_CHECK(device, cl.event_info(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr), what);
  if (status < 0) return opencl_error(device, status, what);
  return status == CL_COMPLETE ? HP_OK : HP_NOT_READY;
}

// OpenCL has no timed wait, so this polls: without pauses at first, since most waits are short.
HpStatus wait(int device, cl_event event, uint32_t timeout_ms, const char* what) {
  if (!event) return HP_OK;
  if (timeout_ms == 0) {
    cl.wait_for_events(1, &event);
    return event_status(device, event, what);
  }
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (;;) {
    const HpStatus status = event_status(device, event, what);
    if (status != HP_NOT_READY) return status;
    const auto waited = Clock::now() - start;
    if (waited > std::chrono::milliseconds(timeout_ms))
      return host->fail(HP_TIMEOUT, "ocl:%d: %s took more than %u ms", device, what, timeout_ms);
    if (waited > std::chrono::microseconds(200)) usleep(50);
  }
}

Event& event_of(HpEvent event) { return *reinterpret_cast<Event*>(event); }

}  // namespace

HpStatus CommandScope::begin(HpStream handle) {
  if (HpStatus status = find_stream(device, handle, &stream)) return status;
  stream->mutex.lock();
  if (!stream->queue) {
    if (HpStatus status = open_queue(device, *stream)) {
      stream->mutex.unlock();
      return status;
    }
  }
  queue = stream->queue;
  return HP_OK;
}

HpStatus CommandScope::end(cl_int result, const char* what) {
  if (result == CL_SUCCESS) {
    if (stream->last) cl.release_event(stream->last);
    stream->last = done;
    result = cl.flush(queue);  // another queue may wait for it
  }
  stream->mutex.unlock();
  return result == CL_SUCCESS ? HP_OK : opencl_error(device, result, what);
}

HpStatus create_stream(int device, int, HpStream* stream) {
  auto* made = new (std::nothrow) Stream;
  if (!made) return host->fail(HP_ERROR, "ocl:%d is out of host memory for a stream", device);
  if (HpStatus status = open_queue(device, *made)) {
    delete made;
    return status;
  }
  *stream = reinterpret_cast<HpStream>(made);
  return HP_OK;
}

HpStatus destroy_stream(int device, HpStream handle) {
  if (!handle) return host->fail(HP_INVALID_ARGUMENT, "ocl:%d: the default stream cannot be destroyed", device);
  auto* stream = reinterpret_cast<Stream*>(handle);
  if (stream->last) cl.release_event(stream->last);
  const cl_int result = cl.release_queue(stream->queue);
  delete stream;
  OCL_CHECK(device, result, "destroying a queue");
  return HP_OK;
}

HpStatus synchronize_stream(int device, HpStream handle, uint32_t timeout_ms) {
  Stream* stream = nullptr;
  if (HpStatus status = find_stream(device, handle, &stream)) return status;
  const EventReference last(stream->mutex, stream->last);
  if (!last) return HP_OK;
  const HpStatus status = wait(device, last, timeout_ms, "work on a stream");
  if (status != HP_TIMEOUT) {
    // Report an error only once: clear the event, unless more was queued meanwhile.
    std::lock_guard<std::mutex> lock(stream->mutex);
    if (stream->last == last) {
      cl.release_event(last);
      stream->last = nullptr;
    }
  }
  return status;
}

HpStatus query_stream(int device, HpStream handle) {
  Stream* stream = nullptr;
  if (HpStatus status = find_stream(device, handle, &stream)) return status;
  std::lock_guard<std::mutex> lock(stream->mutex);
  return event_status(device, stream->last, "work on a stream");
}

HpStatus create_event(int device, int with_timing, HpEvent* event) {
  auto* made = new (std::nothrow) Event;
  if (!made) return host->fail(HP_ERROR, "ocl:%d is out of host memory for an event", device);
  made->with_timing = with_timing != 0;
  *event = reinterpret_cast<HpEvent>(made);
  return HP_OK;
}

HpStatus destroy_event(int, HpEvent handle) {
  Event& event = event_of(handle);
  if (event.done) cl.release_event(event.done);
  delete &event;
  return HP_OK;
}

HpStatus record_event(int device, HpEvent handle, HpStream stream_handle) {
  Stream* stream = nullptr;
  if (HpStatus status = find_stream(device, stream_handle, &stream)) return status;
  Event& event = event_of(handle);
  if (event.with_timing) {
    // A command of its own, so the event has a time even if nothing was queued.
    if (HpStatus status = enqueue(device, stream_handle, "recording an event",
                                  [](cl_command_queue queue, cl_event* e) { return cl.marker(queue, 0, nullptr, e); }))
      return status;
  }
  EventReference last(stream->mutex, stream->last);
  std::lock_guard<std::mutex> lock(event.mutex);
  if (event.done) cl.release_event(event.done);
  event.done = last.release();
  return HP_OK;
}

HpStatus wait_event(int device, HpEvent handle, HpStream stream) {
  Device* d = nullptr;
  if (HpStatus status = find_device(device, &d)) return status;
  Event& event = event_of(handle);
  const EventReference done(event.mutex, event.done);
  if (!done) return HP_OK;
  cl_context context = nullptr;
  OCL_CHECK(device, cl.event_info(done, CL_EVENT_CONTEXT, sizeof context, &context, nullptr), "waiting for an event");
  // Events cannot be shared between platforms.
  if (context != d->context) return wait(device, done, 0, "waiting for an event");
  return enqueue(device, stream, "waiting for an event", [&](cl_command_queue queue, cl_event* e) {
    const cl_event other = done;
    return cl.barrier(queue, 1, &other, e);
  });
}

HpStatus synchronize_event(int device, HpEvent handle, uint32_t timeout_ms) {
  Event& event = event_of(handle);
  const EventReference done(event.mutex, event.done);
  return wait(device, done, timeout_ms, "waiting for an event");
}

HpStatus query_event(int device, HpEvent handle) {
  Event& event = event_of(handle);
  std::lock_guard<std::mutex> lock(event.mutex);
  return event_status(device, event.done, "waiting for an event");
}

HpStatus elapsed_between(int device, HpEvent start, HpEvent end, double* milliseconds) {
  cl_ulong times[2] = {0, 0};
  int index = 0;
  for (HpEvent handle : {start, end}) {
    Event& event = event_of(handle);
    std::lock_guard<std::mutex> lock(event.mutex);
    if (!event.with_timing || !event.done || event_status(device, event.done, "an event") != HP_OK)
      return host->fail(HP_INVALID_ARGUMENT,
                        "ocl:%d: elapsed time needs two events that were created with timing and reached", device);
    OCL_CHECK(device, cl.event_times(event.done, CL_PROFILING_COMMAND_END, sizeof times[0], &times[index++], nullptr),
              "the time of an event");
  }
  *milliseconds = (static_cast<double>(times[1]) - static_cast<double>(times[0])) * 1e-6;
  return HP_OK;
}

}  // namespace ocl
