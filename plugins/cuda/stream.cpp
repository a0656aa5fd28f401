#include "stream.h"

#include <unistd.h>

#include <chrono>

#include "device.h"
#include "host.h"

namespace nv {
namespace {

CUstream stream_of(HpStream stream) { return reinterpret_cast<CUstream>(stream); }
CUevent event_of(HpEvent event) { return reinterpret_cast<CUevent>(event); }

// The driver has no timed wait, so this polls: without pauses at first, since most waits are short.
template <class Query>
HpStatus wait(int device, uint32_t timeout_ms, const char* what, Query query) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kEager = std::chrono::milliseconds(2);
  const auto start = Clock::now();
  for (;;) {
    const CUresult result = query();
    if (result == CUDA_SUCCESS) return HP_OK;
    if (result != CUDA_ERROR_NOT_READY) return driver_error(device, result, what);
    const auto waited = Clock::now() - start;
    if (waited > std::chrono::milliseconds(timeout_ms))
      return host->fail(HP_TIMEOUT, "nv:%d: %s took more than %u ms", device, what, timeout_ms);
    if (waited > kEager) usleep(20);
  }
}

}  // namespace

HpStatus create_stream(int device, int priority, HpStream* stream) {
  if (HpStatus status = make_current(device)) return status;
  CUstream made = nullptr;
  NV_CHECK(device, driver.stream_create(&made, CU_STREAM_NON_BLOCKING, priority), "creating a stream");
  *stream = reinterpret_cast<HpStream>(made);
  return HP_OK;
}

HpStatus destroy_stream(int device, HpStream stream) {
  if (HpStatus status = make_current(device)) return status;
  NV_CHECK(device, driver.stream_destroy(stream_of(stream)), "destroying a stream");
  return HP_OK;
}

HpStatus synchronize_stream(int device, HpStream stream, uint32_t timeout_ms) {
  if (HpStatus status = make_current(device)) return status;
  if (timeout_ms > 0)
    return wait(device, timeout_ms, "work on a stream", [&] { return driver.stream_query(stream_of(stream)); });
  NV_CHECK(device, driver.stream_synchronize(stream_of(stream)), "work on a stream");
  return HP_OK;
}

HpStatus query_stream(int device, HpStream stream) {
  if (HpStatus status = make_current(device)) return status;
  const CUresult result = driver.stream_query(stream_of(stream));
  if (result == CUDA_ERROR_NOT_READY) return HP_NOT_READY;
  return result ? driver_error(device, result, "work on a stream") : HP_OK;
}

HpStatus call_host(int device, HpStream stream, void (*function)(void* data), void* data) {
  if (HpStatus status = make_current(device)) return status;
  NV_CHECK(device, driver.launch_host_function(stream_of(stream), function, data), "queueing a host function");
  return HP_OK;
}

HpStatus create_event(int device, int with_timing, HpEvent* event) {
  if (HpStatus status = make_current(device)) return status;
  CUevent made = nullptr;
  NV_CHECK(device, driver.event_create(&made, with_timing ? 0u : unsigned{CU_EVENT_DISABLE_TIMING}),
           "creating an event");
  *event = reinterpret_cast<HpEvent>(made);
  return HP_OK;
}

HpStatus destroy_event(int device, HpEvent event) {
  if (HpStatus status = make_current(device)) return status;
  NV_CHECK(device, driver.event_destroy(event_of(event)), "destroying an event");
  return HP_OK;
}

HpStatus record_event(int device, HpEvent event, HpStream stream) {
  if (HpStatus status = make_current(device)) return status;
  NV_CHECK(device, driver.event_record(event_of(event), stream_of(stream)), "recording an event");
  return HP_OK;
}

HpStatus wait_event(int device, HpEvent event, HpStream stream) {
  if (HpStatus status = make_current(device)) return status;
  NV_CHECK(device, driver.stream_wait_event(stream_of(stream), event_of(event), 0), "waiting for an event");
  return HP_OK;
}

HpStatus synchronize_event(int device, HpEvent event, uint32_t timeout_ms) {
  if (HpStatus status = make_current(device)) return status;
  if (timeout_ms > 0)
    return wait(device, timeout_ms, "waiting for an event", [&] { return driver.event_query(event_of(event)); });
  NV_CHECK(device, driver.event_synchronize(event_of(event)), "waiting for an event");
  return HP_OK;
}

HpStatus query_event(int device, HpEvent event) {
  if (HpStatus status = make_current(device)) return status;
  const CUresult result = driver.event_query(event_of(event));
  if (result == CUDA_ERROR_NOT_READY) return HP_NOT_READY;
  return result ? driver_error(device, result, "waiting for an event") : HP_OK;
}

HpStatus elapsed_between(int device, HpEvent start, HpEvent end, double* milliseconds) {
  if (HpStatus status = make_current(device)) return status;
  float elapsed = 0;
  const CUresult result = driver.event_elapsed(&elapsed, event_of(start), event_of(end));
  if (result == CUDA_ERROR_NOT_READY || result == CUDA_ERROR_INVALID_HANDLE)
    return host->fail(HP_INVALID_ARGUMENT,
                      "nv:%d: elapsed time needs two events that were created with timing and reached", device);
  NV_CHECK(device, result, "the time between two events");
  *milliseconds = elapsed;
  return HP_OK;
}

}  // namespace nv
