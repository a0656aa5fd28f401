// A Paddle plug-in for the tests of the bridge, without Paddle, and as strict as one can be:
//  - device memory lies at addresses that nobody can read, and starts at odd places;
//  - streams are threads that take their time, so that a wait that was left out shows;
//  - every call must come with its device current, sizes must be multiples of the chunk, and memory must come back with
//    the size that it was asked for.
// A breach is C_ERROR. INIT is a line that runs at the end of InitPlugin; INTERFACE_SIZE and PARAMS_SIZE are the sizes
// that it takes.
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "paddle_table.h"

#ifndef INIT
#define INIT
#endif
#ifndef INTERFACE_SIZE
#define INTERFACE_SIZE 1128
#endif
#ifndef PARAMS_SIZE
#define PARAMS_SIZE 96
#endif

using namespace paddle;

extern "C" void nobody_defines_this();

// A stream: work in its order, on a thread of its own.
struct paddle::StreamHandle {
  int device = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  uint64_t queued = 0;
  uint64_t done = 0;

  uint64_t add(std::function<void()> work) {
    const std::lock_guard<std::mutex> lock(mutex);
    queue.push_back(std::move(work));
    changed.notify_all();
    return ++queued;
  }
  void wait(uint64_t number) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return done >= number; });
  }
  void run() {
    for (;;) {
      std::function<void()> work;
      {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return !queue.empty(); });
        work = std::move(queue.front());
        queue.pop_front();
      }
      std::this_thread::sleep_for(std::chrono::microseconds(300));
      work();
      const std::lock_guard<std::mutex> lock(mutex);
      ++done;
      changed.notify_all();
    }
  }
};

// An event: a place in a stream's order.
struct paddle::EventHandle {
  Stream stream = nullptr;
  uint64_t number = 0;
};

namespace {

constexpr uintptr_t kFar = uintptr_t{1} << 62;
constexpr int kFirst = 10;  // physical numbers are 10 and 11
constexpr size_t kChunk = 256;
constexpr size_t kTotal = size_t{1} << 30;

thread_local int current = -1;
std::mutex mutex;
std::map<std::pair<int, void*>, size_t> held;
size_t used[2];
std::map<void*, size_t> pinned;
bool initialized = false;

bool right(Device device) { return device->id == current && (current == kFirst || current == kFirst + 1); }

char* near(const void* ptr) { return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(ptr) - kFar); }

Status initialize() {
  initialized = true;
  return kSuccess;
}
Status broken_driver() { return kFailed; }
Status init_device(Device device) {
  if (!initialized || device->id > 1) return kError;
  device->id += kFirst;
  return kSuccess;
}
Status set_device(Device device) {
  current = device->id;
  return right(device) ? kSuccess : kError;
}
Status get_device(Device device) {
  device->id = current;
  return kSuccess;
}
Status get_device_count(size_t* count) {
  *count = 2;
  return kSuccess;
}
Status no_devices(size_t* count) {
  *count = 0;
  return kSuccess;
}
Status get_device_list(size_t* devices) {
  devices[0] = 0;
  devices[1] = 1;
  return kSuccess;
}

Status any_size(Device device, void** ptr, size_t size) {
  if (!right(device)) return kError;
  const std::lock_guard<std::mutex> lock(mutex);
  size_t& mine = used[device->id - kFirst];
  if (size > kTotal - mine) return kFailed;
  mine += size;
  void* base = std::aligned_alloc(64, size / 64 * 64 + 128);
  *ptr = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(base) + 16 + kFar);
  held[{device->id, *ptr}] = size;
  return kSuccess;
}
Status allocate(Device device, void** ptr, size_t size) {
  return size % kChunk == 0 ? any_size(device, ptr, size) : kError;
}
Status deallocate(Device device, void* ptr, size_t size) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = held.find({device->id, ptr});
  if (!right(device) || found == held.end() || found->second != size) return kError;
  used[device->id - kFirst] -= size;
  held.erase(found);
  std::free(near(ptr) - 16);
  return kSuccess;
}
Status host_allocate(Device device, void** ptr, size_t size) {
  const std::lock_guard<std::mutex> lock(mutex);
  *ptr = std::aligned_alloc(64, (size + 63) / 64 * 64);
  pinned[*ptr] = size;
  return right(device) ? kSuccess : kError;
}
Status host_deallocate(Device device, void* ptr, size_t size) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (!right(device) || pinned.count(ptr) == 0 || pinned[ptr] != size) return kError;
  pinned.erase(ptr);
  std::free(ptr);
  return kSuccess;
}
Status stats(Device device, size_t* total, size_t* free) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (!right(device)) return kError;
  *total = kTotal;
  *free = kTotal - used[device->id - kFirst];
  return kSuccess;
}
Status min_chunk_size(Device device, size_t* size) {
  *size = kChunk;
  return right(device) ? kSuccess : kError;
}
Status compute_capability(Device, size_t* capability) {
  *capability = 75;
  return kSuccess;
}

Status h2d(Device device, void* dst, const void* src, size_t size) {
  std::memcpy(near(dst), src, size);
  return right(device) ? kSuccess : kError;
}
Status d2h(Device device, void* dst, const void* src, size_t size) {
  std::memcpy(dst, near(src), size);
  return right(device) ? kSuccess : kError;
}
Status d2d(Device device, void* dst, const void* src, size_t size) {
  std::memcpy(near(dst), near(src), size);
  return right(device) ? kSuccess : kError;
}
Status p2p(Device to, Device from, void* dst, const void* src, size_t size) {
  std::memcpy(near(dst), near(src), size);
  return right(from) && to->id >= kFirst ? kSuccess : kError;
}
template <Status (*copy)(Device, void*, const void*, size_t)>
Status queued(Device device, Stream stream, void* dst, const void* src, size_t size) {
  if (!right(device) || stream == nullptr || stream->device != device->id) return kError;
  const int id = device->id;
  stream->add([=] {
    DeviceNumber number{id};
    current = id;
    copy(&number, dst, src, size);
  });
  return kSuccess;
}
Status failing_copy(Device, void*, const void*, size_t) { return kInternalError; }
Status throwing_copy(Device, void*, const void*, size_t) { throw std::runtime_error("link 3 is down"); }

Status create_stream(Device device, Stream* stream) {
  *stream = new StreamHandle;
  (*stream)->device = device->id;
  std::thread(&StreamHandle::run, *stream).detach();
  return right(device) ? kSuccess : kError;
}
// The thread stays: the process of a test ends soon.
Status destroy_stream(Device device, Stream) { return right(device) ? kSuccess : kError; }
Status query_stream(Device device, Stream stream) {
  const std::lock_guard<std::mutex> lock(stream->mutex);
  return !right(device) ? kError : stream->done == stream->queued ? kSuccess : kFailed;
}
Status synchronize_stream(Device device, Stream stream) {
  if (!right(device) || stream->device != device->id) return kError;
  stream->wait(stream->add([] {}));
  return kSuccess;
}
Status create_event(Device device, Event* event) {
  *event = new EventHandle;
  return right(device) ? kSuccess : kError;
}
Status destroy_event(Device device, Event event) {
  delete event;
  return right(device) ? kSuccess : kError;
}
Status record_event(Device device, Stream stream, Event event) {
  if (!right(device) || stream->device != device->id) return kError;
  *event = {stream, stream->add([] {})};
  return kSuccess;
}
Status query_event(Device device, Event event) {
  if (!right(device) || event->stream == nullptr) return kError;
  const std::lock_guard<std::mutex> lock(event->stream->mutex);
  return event->stream->done >= event->number ? kSuccess : kFailed;
}
Status synchronize_event(Device device, Event event) {
  if (!right(device) || event->stream == nullptr) return kError;
  event->stream->wait(event->number);
  return kSuccess;
}
Status stream_wait_event(Device device, Stream stream, Event event) {
  if (!right(device) || event->stream == nullptr || stream->device != device->id) return kError;
  const EventHandle at = *event;
  stream->add([at] { at.stream->wait(at.number); });
  return kSuccess;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void InitPlugin(Params* params) {
  Interface* table = params->interface;
  if (params->size != PARAMS_SIZE || table->size != INTERFACE_SIZE) return;
  static char device_type[] = "Test-CPU";
  static char sub_device_type[] = "v1";
  params->device_type = device_type;
  params->sub_device_type = sub_device_type;
  table->initialize = initialize;
  table->init_device = init_device;
  table->set_device = set_device;
  table->get_device = get_device;
  table->get_device_count = get_device_count;
  table->get_device_list = get_device_list;
  table->device_memory_allocate = allocate;
  table->device_memory_deallocate = deallocate;
  table->host_memory_allocate = host_allocate;
  table->host_memory_deallocate = host_deallocate;
  table->device_memory_stats = stats;
  table->device_min_chunk_size = min_chunk_size;
  table->get_compute_capability = compute_capability;
  table->memory_copy_h2d = h2d;
  table->memory_copy_d2h = d2h;
  table->memory_copy_d2d = d2d;
  table->memory_copy_p2p = p2p;
  table->async_memory_copy_h2d = queued<h2d>;
  table->async_memory_copy_d2h = queued<d2h>;
  table->async_memory_copy_d2d = queued<d2d>;
  table->create_stream = create_stream;
  table->destroy_stream = destroy_stream;
  table->query_stream = query_stream;
  table->synchronize_stream = synchronize_stream;
  table->create_event = create_event;
  table->record_event = record_event;
  table->destroy_event = destroy_event;
  table->query_event = query_event;
  table->synchronize_event = synchronize_event;
  table->stream_wait_event = stream_wait_event;
  INIT;
}
