// A plug-in inside the test's process: host memory, a limit, faults on demand, and streams that finish their work only
// when the test says so. For one test program: include it once.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "core/memory/allocator.h"
#include "core/memory/pinned_allocator.h"
#include "core/runtime/runtime.h"

namespace {

constexpr size_t KiB = 1024, MiB = 1024 * KiB;
constexpr int kNumDevices = 48;  // one a test, so that each starts afresh

// Work on a stalled stream is not done before `finish`, or before somebody waits for it.
struct FakeStream {
  std::atomic<bool> stalled{false};
  std::atomic<uint64_t> submitted{0}, completed{0};

  uint64_t submit() { return ++submitted; }
  bool done(uint64_t ticket) const { return !stalled || ticket <= completed; }
  void finish() { completed = submitted.load(); }
};

struct FakeEvent {
  std::atomic<FakeStream*> stream{nullptr};
  std::atomic<uint64_t> ticket{0};
};

enum class Fault { kNone, kNullPointer, kUnaligned, kDuplicate, kAllocateError, kFreeError, kRecordError, kSyncError };

struct FakeDevice {
  std::atomic<size_t> limit{1024 * MiB};
  std::atomic<Fault> fault{Fault::kNone};
  std::atomic<int> allocates{0}, frees{0}, records{0}, queries{0}, stream_syncs{0}, event_syncs{0};
  std::atomic<int> free_delay_ms{0}, freeing{0};
  FakeStream default_stream;
  std::mutex mutex;
  size_t used = 0;
  std::map<void*, size_t> live;
};
FakeDevice fake_devices[kNumDevices];
std::atomic<int> live_events{0};
const HpHost* fake_host = nullptr;

struct FakePinned {
  std::atomic<int> allocates{0}, frees{0};
  std::atomic<size_t> limit{SIZE_MAX}, used{0};
  std::atomic<bool> null_pointer{false};
  std::mutex mutex;
  std::map<void*, size_t> live;
} fake_pinned;

// The locking rule: a plug-in may be called only while the allocators' locks are free. Every function of this one comes
// back to them, and would hang on a lock that is held.
hp::Runtime* fake_runtime = nullptr;
hp::PinnedAllocator* pinned_under_test = nullptr;
void reenter(int device) {
  if (fake_runtime != nullptr) fake_runtime->device(device).allocator().stats();
  if (pinned_under_test != nullptr) pinned_under_test->stats();
}

FakeStream& stream_of(int device, HpStream handle) {
  return handle != nullptr ? *reinterpret_cast<FakeStream*>(handle) : fake_devices[device].default_stream;
}

HpStatus fake_device_count(int* count) {
  *count = kNumDevices;
  return HP_OK;
}

HpStatus fake_allocate(int device, size_t bytes, void** ptr) {
  reenter(device);
  FakeDevice& fake = fake_devices[device];
  ++fake.allocates;
  switch (fake.fault.load()) {
    case Fault::kNullPointer:
      *ptr = nullptr;
      return HP_OK;
    case Fault::kAllocateError:
      return fake_host->fail(HP_DEVICE_LOST, "the bus went away");
    case Fault::kDuplicate: {
      std::lock_guard<std::mutex> lock(fake.mutex);
      *ptr = fake.live.begin()->first;
      return HP_OK;
    }
    default:
      break;
  }
  std::lock_guard<std::mutex> lock(fake.mutex);
  if (fake.used + bytes > fake.limit) return fake_host->fail(HP_OUT_OF_MEMORY, "fake memory is full");
  const bool unaligned = fake.fault == Fault::kUnaligned;
  auto* raw = static_cast<char*>(std::aligned_alloc(4096, bytes + (unaligned ? 4096 : 0)));
  *ptr = unaligned ? raw + 8 : raw;
  fake.used += bytes;
  fake.live[*ptr] = bytes;
  return HP_OK;
}

HpStatus fake_free(int device, void* ptr) {
  reenter(device);
  FakeDevice& fake = fake_devices[device];
  ++fake.frees;
  ++fake.freeing;
  std::this_thread::sleep_for(std::chrono::milliseconds(fake.free_delay_ms));
  std::lock_guard<std::mutex> lock(fake.mutex);
  --fake.freeing;
  auto found = fake.live.find(ptr);
  if (found == fake.live.end()) return fake_host->fail(HP_INVALID_ARGUMENT, "no such memory");
  fake.used -= found->second;
  fake.live.erase(found);
  std::free(fake.fault == Fault::kUnaligned ? static_cast<char*>(ptr) - 8 : ptr);
  return fake.fault == Fault::kFreeError ? fake_host->fail(HP_ERROR, "page table is stuck") : HP_OK;
}

HpStatus fake_copy(int, void*, const void*, size_t, HpStream) { return HP_OK; }

HpStatus fake_stream_create(int, int, HpStream* stream) {
  *stream = reinterpret_cast<HpStream>(new FakeStream);
  return HP_OK;
}
HpStatus fake_stream_destroy(int, HpStream stream) {
  delete reinterpret_cast<FakeStream*>(stream);
  return HP_OK;
}
HpStatus fake_stream_synchronize(int device, HpStream stream, uint32_t) {
  reenter(device);
  ++fake_devices[device].stream_syncs;
  if (fake_devices[device].fault == Fault::kSyncError) return fake_host->fail(HP_ERROR, "kernel crashed");
  stream_of(device, stream).finish();
  return HP_OK;
}
HpStatus fake_stream_query(int device, HpStream stream) {
  reenter(device);
  FakeStream& fake = stream_of(device, stream);
  return fake.done(fake.submitted) ? HP_OK : HP_NOT_READY;
}

HpStatus fake_event_create(int device, int, HpEvent* event) {
  reenter(device);
  ++live_events;
  *event = reinterpret_cast<HpEvent>(new FakeEvent);
  return HP_OK;
}
HpStatus fake_event_destroy(int, HpEvent event) {
  --live_events;
  delete reinterpret_cast<FakeEvent*>(event);
  return HP_OK;
}
HpStatus fake_event_record(int device, HpEvent event, HpStream stream) {
  reenter(device);
  ++fake_devices[device].records;
  FakeStream& on = stream_of(device, stream);
  if (fake_devices[device].fault == Fault::kRecordError) {
    on.submit();
    return fake_host->fail(HP_ERROR, "no event slots");
  }
  auto* fake = reinterpret_cast<FakeEvent*>(event);
  fake->stream = &on;
  fake->ticket = on.submit();
  return HP_OK;
}
HpStatus fake_event_wait(int, HpEvent, HpStream) { return HP_OK; }
HpStatus fake_event_synchronize(int device, HpEvent event, uint32_t) {
  reenter(device);
  ++fake_devices[device].event_syncs;
  auto* fake = reinterpret_cast<FakeEvent*>(event);
  FakeStream& on = *fake->stream;
  uint64_t seen = on.completed;
  while (seen < fake->ticket && !on.completed.compare_exchange_weak(seen, fake->ticket)) {
  }
  return HP_OK;
}
HpStatus fake_event_query(int device, HpEvent event) {
  reenter(device);
  ++fake_devices[device].queries;
  auto* fake = reinterpret_cast<FakeEvent*>(event);
  return fake->stream.load()->done(fake->ticket) ? HP_OK : HP_NOT_READY;
}

HpStatus fake_memory(int device, uint64_t* free_bytes, uint64_t* total_bytes) {
  reenter(device);
  FakeDevice& fake = fake_devices[device];
  std::lock_guard<std::mutex> lock(fake.mutex);
  *total_bytes = fake.limit;
  *free_bytes = fake.limit - fake.used;
  return HP_OK;
}

HpStatus fake_pinned_allocate(size_t bytes, void** ptr) {
  reenter(0);
  ++fake_pinned.allocates;
  *ptr = nullptr;
  if (fake_pinned.null_pointer) return HP_OK;
  std::lock_guard<std::mutex> lock(fake_pinned.mutex);
  if (fake_pinned.used + bytes > fake_pinned.limit) return fake_host->fail(HP_OUT_OF_MEMORY, "cannot lock pages");
  *ptr = std::aligned_alloc(4096, std::max<size_t>(bytes, 4096));
  fake_pinned.used += bytes;
  fake_pinned.live[*ptr] = bytes;
  return HP_OK;
}
HpStatus fake_pinned_free(void* ptr) {
  reenter(0);
  ++fake_pinned.frees;
  std::lock_guard<std::mutex> lock(fake_pinned.mutex);
  auto found = fake_pinned.live.find(ptr);
  if (found == fake_pinned.live.end()) return fake_host->fail(HP_INVALID_ARGUMENT, "not pinned");
  fake_pinned.used -= found->second;
  fake_pinned.live.erase(found);
  std::free(ptr);
  return HP_OK;
}

HpPlugin required_part(const char* name) {
  HpPlugin table{};
  table.struct_size = sizeof(HpPlugin);
  table.abi_major = HP_ABI_MAJOR;
  table.abi_minor = HP_ABI_MINOR;
  table.name = name;
  table.device_count = fake_device_count;
  table.allocate = fake_allocate;
  table.free = fake_free;
  table.copy_to_device = fake_copy;
  table.copy_to_host = fake_copy;
  table.copy_on_device = fake_copy;
  return table;
}

[[maybe_unused]] HpStatus init_full(const HpHost* host, const HpPlugin** plugin) {
  fake_host = host;
  static const HpStreams streams = {sizeof(HpStreams),       fake_stream_create, fake_stream_destroy,
                                    fake_stream_synchronize, fake_stream_query,  nullptr};
  static const HpEvents events = {sizeof(HpEvents), fake_event_create,      fake_event_destroy, fake_event_record,
                                  fake_event_wait,  fake_event_synchronize, fake_event_query,   nullptr};
  static const HpInfo info = {sizeof(HpInfo), nullptr, fake_memory};
  static const HpPinned pinned = {sizeof(HpPinned), fake_pinned_allocate, fake_pinned_free};
  static HpPlugin table = required_part("fake");
  table.streams = &streams;
  table.events = &events;
  table.info = &info;
  table.pinned = &pinned;
  *plugin = &table;
  return HP_OK;
}

HpStatus init_bare(const HpHost* host, const HpPlugin** plugin) {
  fake_host = host;
  static const HpPlugin table = required_part("bare");
  *plugin = &table;
  return HP_OK;
}

[[maybe_unused]] FakeStream& fake_of(hp::Stream& stream) { return stream_of(stream.device.index, stream.handle()); }

[[maybe_unused]] hp::Runtime& full_runtime() {
  static hp::Runtime& runtime = hp::Runtime::mount(hp::Plugin::adopt(init_full, "test_allocator"));
  fake_runtime = &runtime;
  return runtime;
}
[[maybe_unused]] hp::Runtime& bare_runtime() {
  static hp::Runtime& runtime = hp::Runtime::mount(hp::Plugin::adopt(init_bare, "test_allocator"));
  return runtime;
}

}  // namespace
