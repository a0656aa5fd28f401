#include "core/runtime/runtime.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "core/dispatch/operator.h"
#include "core/memory/allocator.h"
#include "core/recording/graph_capture.h"
#include "core/recording/recorder.h"
#include "core/tracing/host_events.h"
#include "core/tracing/tracer.h"

namespace hp {
namespace {

std::atomic<uint32_t> wait_timeout_ms{0};

struct RuntimeTable {
  std::mutex mutex;
  std::array<std::atomic<Runtime*>, kMaxRuntimes> runtimes{};
  int count = 0;
};
RuntimeTable& runtime_table() {
  static auto* table = new RuntimeTable;  // leaked: threads use it until the process ends
  return *table;
}

struct ThreadState {
  int device = 0;
  std::array<Stream*, kMaxDevices> streams{};  // null: the default stream
};
thread_local std::array<ThreadState, kMaxRuntimes> thread_states;

int64_t steady_clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void warn_once(std::atomic<bool>& warned, const std::string& message) {
  if (!warned.exchange(true)) std::fprintf(stderr, "[hardpoint] %s\n", message.c_str());
}

int pool_of(int priority) { return priority < 0 ? 1 : 0; }

}  // namespace

// ---- Stream

std::string Stream::recent_operators() const {
  const uint64_t end = launches_.load(std::memory_order_relaxed);
  const uint64_t launched = end - synchronized_launches_.load(std::memory_order_relaxed);
  if (launched == 0) return "";
  const uint64_t shown = std::min<uint64_t>(launched, recent_.size());
  std::string names;
  for (uint64_t i = end - shown; i < end; ++i) {
    const Operator* op = recent_[i % recent_.size()].load(std::memory_order_relaxed);
    if (op != nullptr) names += (names.empty() ? "" : ", ") + op->name;
  }
  return "; launched on this stream since the last synchronization (" + std::to_string(launched) +
         ", latest last): " + names;
}

void Stream::synchronize() {
  if (GraphCapture* active = capture()) active->refuse_wait();
  const WaitScope traced("wait for a stream", device);
  std::unique_ptr<DeviceFault::Record> fault = fault_.read(*this);
  std::vector<std::pair<Stream*, std::unique_ptr<DeviceFault::Record>>> other_faults;
  if (watches_faults_.load(std::memory_order_relaxed)) {
    std::vector<Stream*> others;
    {
      std::lock_guard<std::mutex> lock(watched_mutex_);
      others.swap(watched_);
      watches_faults_.store(false, std::memory_order_relaxed);
    }
    for (Stream* other : others) other_faults.emplace_back(other, other->fault_.read_always(*this));
  }
  try {
    wait();
  } catch (const Error& error) {
    if (error.status == HP_TIMEOUT) {  // leaked: the queued copies may still write to them
      fault.release();
      for (auto& [other, record] : other_faults) record.release();
    }
    throw;
  }
  for (auto& [other, record] : other_faults) other->fault_.raise(*this, *record);
  if (fault) fault_.raise(*this, *fault);
}

void* Stream::fault_record() {
  if (GraphCapture* active = capture()) return active->fault_record();
  return fault_.arm(*this);
}

void Stream::watch_faults_of(Stream& other) {
  std::lock_guard<std::mutex> lock(watched_mutex_);
  if (std::find(watched_.begin(), watched_.end(), &other) == watched_.end()) watched_.push_back(&other);
  watches_faults_.store(true, std::memory_order_relaxed);
}

void Stream::wait() {
  if (GraphCapture* active = capture()) active->refuse_wait();
  if (!device.plugin.has_streams()) return;
  const HpStatus status =
      guarded([&] { return device.plugin.streams.synchronize(device.index, handle(), Runtime::timeout_ms()); });
  if (status == HP_OK) {
    synchronized_launches_.store(launches_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return;
  }
  const std::string launched = recent_operators();
  if (status != HP_TIMEOUT)
    synchronized_launches_.store(launches_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  store_message(take_message() + launched);
  HP_CHECK(status, device.name() + ": waiting for stream " + std::to_string(id));
}

bool Stream::query() {
  const HpStreams& streams = device.plugin.streams;
  if (!device.plugin.has_streams()) return true;
  if (GraphCapture* active = capture()) active->refuse_wait();
  if (streams.query == nullptr) {
    wait();
    return true;
  }
  const HpStatus status = guarded([&] { return streams.query(device.index, handle()); });
  if (status == HP_NOT_READY) return false;
  HP_CHECK(status, device.name() + ": query of stream " + std::to_string(id));
  return true;
}

void Stream::call_host(void (*function)(void*), void* data) {
  if (GraphCapture* active = capture()) active->refuse("it calls a function on the host");
  if (device.plugin.streams.call_host != nullptr) {
    HP_CHECK(device.plugin.streams.call_host(device.index, handle(), function, data),
             device.name() + ": host function on stream " + std::to_string(id));
    return;
  }
  try {
    wait();
  } catch (const Error&) {
    function(data);  // failed work is done, too
    throw;
  }
  function(data);
}

// ---- Event

void Event::record(Stream& stream) {
  if (const GraphCapture* active = stream.capture()) {
    captured_in_ = active->number;  // captured work runs in launch order: nothing to record
    stream_ = &stream;
    recorded_ = true;
    return;
  }
  captured_in_ = 0;
  if (handle_ != nullptr) {
    HP_CHECK(device.plugin.events.record(device.index, handle_, stream.handle()),
             device.name() + ": record of an event");
  } else {
    stream.wait();
    host_time_ns_ = steady_clock_ns();
  }
  stream_ = &stream;
  recorded_ = true;
}

void Event::block(Stream& stream) {
  if (!recorded_) return;
  if (captured()) {
    GraphCapture* const active = stream_->capture();
    if (active != nullptr && active->number == captured_in_ && stream.capture() != active) active->join(stream);
    return;
  }
  if (handle_ == nullptr) return;
  if (stream.capture() != nullptr) return synchronize();  // recorded before the capture: wait once
  HP_CHECK(device.plugin.events.wait(stream.device.index, handle_, stream.handle()),
           stream.device.name() + ": wait for an event");
}

void Event::synchronize() {
  if (captured() && stream_->capture() != nullptr) stream_->capture()->refuse_wait();
  if (handle_ == nullptr || !recorded_ || captured()) return;
  const WaitScope traced("wait for an event", device);
  const HpStatus status =
      guarded([&] { return device.plugin.events.synchronize(device.index, handle_, Runtime::timeout_ms()); });
  if (status == HP_OK) return;
  store_message(take_message() + stream_->recent_operators());
  check(status, device.name() + ": waiting for an event of stream " + std::to_string(stream_->id));
}

bool Event::query() {
  if (handle_ == nullptr || !recorded_ || captured()) return true;
  const HpStatus status = guarded([&] { return device.plugin.events.query(device.index, handle_); });
  if (status == HP_NOT_READY) return false;
  HP_CHECK(status, device.name() + ": query of an event");
  return true;
}

double Event::elapsed_ms(const Event& end) const {
  if (!timing || !end.timing) {
    throw Error(HP_INVALID_ARGUMENT, "elapsed_time needs two events created with enable_timing=True");
  }
  if (!recorded_ || !end.recorded_) {
    throw Error(HP_INVALID_ARGUMENT, "elapsed_time: record both events first");
  }
  if (captured() || end.captured()) {
    throw Error(
        HP_INVALID_ARGUMENT,
        "elapsed_time: an event was recorded in a graph capture, which has no time: record it around the replay");
  }
  if (handle_ == nullptr) return static_cast<double>(end.host_time_ns_ - host_time_ns_) * 1e-6;
  if (device.plugin.events.elapsed == nullptr) {
    throw Error(HP_NOT_SUPPORTED,
                "elapsed_time: plug-in '" + device.plugin.name + "' does not implement HpEvents.elapsed");
  }
  double milliseconds = 0;
  HP_CHECK(device.plugin.events.elapsed(device.index, handle_, end.handle_, &milliseconds),
           device.name() + ": elapsed time of two events");
  return milliseconds;
}

// ---- Device

Device::Device(Runtime& runtime, int index)
    : runtime(runtime), index(index), plugin(*runtime.plugin), allocator_(new CachingAllocator(*this)) {
  streams_[0] = new Stream(*this, 0, 0, nullptr);
  num_streams_ = 1;
}

Error Device::null_handle(const char* function, const char* what) const {
  return Error(HP_ERROR, name() + ": " + function + " of plug-in '" + plugin.name + "' returned HP_OK, but the " +
                             what + " is NULL: it must set a handle, or return host->fail(...)");
}

std::string Device::name() const { return plugin.name + ":" + std::to_string(index); }

Stream& Device::stream(int64_t id) {
  Stream* found = id >= 0 && id < kMaxStreams ? streams_[id].load(std::memory_order_acquire) : nullptr;
  if (found == nullptr) throw Error(HP_INVALID_ARGUMENT, name() + " has no stream " + std::to_string(id));
  return *found;
}

Stream* Device::find_stream(HpStream handle) const {
  const int count = num_streams_.load(std::memory_order_acquire);
  for (int id = 0; id < count; ++id) {
    Stream* each = streams_[id].load(std::memory_order_acquire);
    if (each != nullptr && each->handle() == handle) return each;
  }
  return nullptr;
}

Stream& Device::new_stream(int priority) {
  HpStream handle = nullptr;
  if (plugin.has_streams()) {
    HP_CHECK(plugin.streams.create(index, priority, &handle), name() + ": creation of a stream");
    if (handle == nullptr) throw null_handle("HpStreams.create", "stream");
  } else {
    static std::atomic<bool> warned{false};
    warn_once(warned, "plug-in '" + plugin.name + "' has no streams: all work on it is synchronous");
  }
  std::unique_lock<std::mutex> lock(mutex_);
  const int id = num_streams_.load(std::memory_order_relaxed);
  if (id == kMaxStreams) {
    lock.unlock();
    if (handle != nullptr) plugin.streams.destroy(index, handle);
    return stream(1 + next_pool_[pool_of(priority)]++ % (kMaxStreams - 1));
  }
  auto* created = new Stream(*this, id, priority, handle);
  streams_[id].store(created, std::memory_order_release);
  num_streams_.store(id + 1, std::memory_order_relaxed);
  return *created;
}

Stream& Device::pool_stream(int priority) {
  const int which = pool_of(priority);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto& pool = pool_[which];
    if (pool.size() >= kPoolSize) return *pool[next_pool_[which]++ % kPoolSize];
  }
  Stream& created = new_stream(priority);
  std::lock_guard<std::mutex> lock(mutex_);
  pool_[which].push_back(&created);
  return created;
}

Event* Device::acquire_event(bool timing) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto& pool = free_events_[timing];
    if (!pool.empty()) {
      Event* event = pool.back();
      pool.pop_back();
      return event;
    }
  }
  HpEvent handle = nullptr;
  if (plugin.has_events()) {
    HP_CHECK(plugin.events.create(index, timing, &handle), name() + ": creation of an event");
    if (handle == nullptr) throw null_handle("HpEvents.create", "event");
  } else {
    static std::atomic<bool> warned{false};
    warn_once(warned, "plug-in '" + plugin.name + "' has no events: recording one waits for its stream");
  }
  return new Event(*this, timing, handle);
}

void Device::release_event(Event* event) noexcept {
  if (event == nullptr) return;
  event->recorded_ = false;
  event->captured_in_ = 0;
  std::lock_guard<std::mutex> lock(mutex_);
  free_events_[event->timing].push_back(event);
}

void Device::synchronize() {
  const WaitScope traced("wait for the device", *this);
  const int count = num_streams_.load(std::memory_order_acquire);
  for (int id = 0; id < count; ++id) {
    Stream* const each = streams_[id].load(std::memory_order_acquire);
    if (each == nullptr) continue;
    // Nothing runs on a capturing stream: only the thread that captures must not wait.
    if (const GraphCapture* active = each->capture(); active != nullptr && !active->owned_by_this_thread()) continue;
    each->synchronize();
  }
}

namespace {

// Makes what a plug-in wrote into a field a string: terminated, and valid UTF-8.
template <size_t size>
void make_text(char (&field)[size]) {
  field[size - 1] = '\0';
  std::strcpy(field, valid_utf8(field).c_str());  // of the same length
}

}  // namespace

HpProperties Device::properties() const {
  HpProperties properties{};
  properties.struct_size = sizeof(properties);
  if (plugin.info.properties != nullptr) {
    HP_CHECK(plugin.info.properties(index, &properties), name() + ": properties");
    make_text(properties.name);
    make_text(properties.pci_id);
  } else {
    std::snprintf(properties.name, sizeof(properties.name), "%s", plugin.name.c_str());
  }
  if (plugin.abi_minor < 2) {
    // Older plug-ins do not know the fields from uuid on, but may have copied their struct's padding there.
    constexpr size_t known = offsetof(HpProperties, uuid);
    std::memset(reinterpret_cast<char*>(&properties) + known, 0, sizeof(properties) - known);
  }
  if (properties.total_memory == 0) properties.total_memory = memory_info().second;
  return properties;
}

std::pair<uint64_t, uint64_t> Device::memory_info() const {
  uint64_t free_bytes = 0, total_bytes = 0;
  if (plugin.info.memory != nullptr) {
    HP_CHECK(plugin.info.memory(index, &free_bytes, &total_bytes), name() + ": memory info");
  }
  return {free_bytes, total_bytes};
}

void Device::copy_to_device(void* dst, const void* src, size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  if (GraphCapture* active = stream.capture()) active->refuse("it copies from the host");
  if (Recorder* active = recorder()) active->refuse("it copies from the host");
  TraceScope trace(TraceKind::kCopyToDevice, "copy to device", stream, bytes);
  HP_CHECK(plugin.table.copy_to_device(index, dst, src, bytes, stream.handle()), name() + ": copy to the device");
}

void Device::copy_to_host(void* dst, const void* src, size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  if (GraphCapture* active = stream.capture()) active->refuse("it copies to the host");
  if (Recorder* active = recorder()) active->refuse("it copies to the host");
  TraceScope trace(TraceKind::kCopyToHost, "copy to host", stream, bytes);
  HP_CHECK(plugin.table.copy_to_host(index, dst, src, bytes, stream.handle()), name() + ": copy to the host");
}

void Device::copy_on_device(void* dst, const void* src, size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  if (GraphCapture* active = stream.capture(); active != nullptr && active->on_copy(dst, src, bytes)) return;
  TraceScope trace(TraceKind::kCopyOnDevice, "copy on device", stream, bytes);
  HP_CHECK(plugin.table.copy_on_device(index, dst, src, bytes, stream.handle()), name() + ": copy on the device");
  if (Recorder* active = recorder()) active->on_copy(dst, src, bytes, stream);
}

namespace {

// Bytes of one value, for copies that may be queued until the process ends.
constexpr size_t kPatternBytes = 64 << 10;
const char* fill_pattern(uint8_t value) {
  static auto* patterns = new std::array<std::atomic<const char*>, 256>{};
  std::atomic<const char*>& entry = (*patterns)[value];
  if (const char* made = entry.load(std::memory_order_acquire)) return made;
  auto* made = new char[kPatternBytes];
  std::memset(made, value, kPatternBytes);
  const char* other = nullptr;
  if (entry.compare_exchange_strong(other, made, std::memory_order_acq_rel)) return made;
  delete[] made;  // another thread stored its pattern first
  return other;
}

}  // namespace

void Device::fill(void* dst, uint8_t value, size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  if (GraphCapture* active = stream.capture(); active != nullptr && active->on_fill(dst, value, bytes)) return;
  if (Recorder* active = recorder()) active->refuse("it fills memory");
  if (plugin.table.fill_memory != nullptr) {
    TraceScope trace(TraceKind::kFill, "fill memory", stream, bytes);
    HP_CHECK(plugin.table.fill_memory(index, dst, value, bytes, stream.handle()), name() + ": fill of device memory");
    return;
  }
  // One copy from the host, then copies of the filled part, which double each time.
  size_t done = std::min(bytes, kPatternBytes);
  copy_to_device(dst, fill_pattern(value), done, stream);
  while (done < bytes) {
    const size_t next = std::min(done, bytes - done);
    copy_on_device(static_cast<char*>(dst) + done, dst, next, stream);
    done += next;
  }
}

std::pair<uint32_t, uint32_t> Device::read_launch_limits() const {
  uint32_t size = plugin.compiler.group_size, memory = plugin.compiler.local_memory;
  if (plugin.compiler.compile == nullptr) return {size, memory};
  // Older plug-ins have one size for all devices.
  HpProperties own{};
  own.struct_size = sizeof(own);
  if (plugin.abi_minor >= 2 && plugin.info.properties != nullptr) {
    if (guarded([&] { return plugin.info.properties(index, &own); }) == HP_OK) {
      if (own.group_size != 0) size = own.group_size;
      if (own.local_memory != 0) memory = own.local_memory;
    } else {
      take_message();  // the device failed: the launch will report it
      return {size, memory};
    }
  }
  if (size == 0) {
    throw Error(HP_INVALID_ARGUMENT, name() + ": plug-in '" + plugin.name + "' gives no group size: set " +
                                         "HpCompiler.group_size or HpProperties.group_size");
  }
  group_size_.store(size, std::memory_order_relaxed);
  return {size, memory};
}

void Device::drain(uint32_t timeout_ms) noexcept {
  if (!plugin.has_streams()) return;
  const int count = num_streams_.load(std::memory_order_acquire);
  for (int id = 0; id < count; ++id) {
    Stream* each = streams_[id].load(std::memory_order_acquire);
    if (each == nullptr) continue;
    if (guarded([&] { return plugin.streams.synchronize(index, each->handle(), timeout_ms); }) != HP_OK) take_message();
  }
}

// ---- Runtime

Runtime::Runtime(std::shared_ptr<const Plugin> source, int slot)
    : plugin(std::move(source)), slot(slot), process_(getpid()) {
  for (int i = 0; i < plugin->device_count; ++i) devices_.emplace_back(new Device(*this, i));
}

Device& Runtime::device(int index) {
  if (index < 0 || index >= device_count()) {
    throw Error(HP_INVALID_ARGUMENT, "device " + name() + ":" + std::to_string(index) + " does not exist: " + name() +
                                         " has " + std::to_string(device_count()) + " device(s), counted from 0");
  }
  return *devices_[index];
}

Runtime& Runtime::mount(std::shared_ptr<const Plugin> plugin) {
  RuntimeTable& table = runtime_table();
  std::unique_lock<std::mutex> lock(table.mutex);
  for (int i = 0; i < table.count; ++i) {
    const Plugin& other = *table.runtimes[i].load()->plugin;
    if (other.name == plugin->name) {
      throw Error(HP_INVALID_ARGUMENT, "cannot mount " + plugin->origin + ": a plug-in named '" + plugin->name +
                                           "' is already mounted from " + other.origin);
    }
  }
  if (table.count == kMaxRuntimes) {
    throw Error(HP_ERROR, "cannot mount " + plugin->origin + ": at most " + std::to_string(kMaxRuntimes) +
                              " plug-ins can be mounted in one process");
  }
  auto* created = new Runtime(std::move(plugin), table.count);
  table.runtimes[table.count++].store(created, std::memory_order_release);
  lock.unlock();  // a plug-in in Python waits for the GIL
  trace_mounted(*created);
  return *created;
}

std::vector<Runtime*> Runtime::mounted() {
  RuntimeTable& table = runtime_table();
  std::vector<Runtime*> all;
  for (auto& entry : table.runtimes) {
    if (Runtime* runtime = entry.load(std::memory_order_acquire)) all.push_back(runtime);
  }
  return all;
}

void Runtime::copy_peer(Device& dst_device, void* dst, Device& src_device, const void* src, size_t bytes,
                        Stream& stream) {
  if (bytes == 0) return;
  if (&dst_device == &src_device) return src_device.copy_on_device(dst, src, bytes, stream);
  if (GraphCapture* active = stream.capture()) active->refuse("it copies between devices");
  if (Recorder* active = recorder()) active->refuse("it copies between devices");
  if (plugin->peer.copy != nullptr) {
    TraceScope trace(TraceKind::kCopyPeer, "copy between devices", stream, bytes);
    const HpStatus status = guarded(
        [&] { return plugin->peer.copy(dst_device.index, dst, src_device.index, src, bytes, stream.handle()); });
    // HP_NOT_SUPPORTED: no link between these two devices. Copy through the host, as without HpPeer.
    if (status != HP_NOT_SUPPORTED) {
      HP_CHECK(status, "copy from " + src_device.name() + " to " + dst_device.name());
      return;
    }
    trace.discard();
    take_message();
  }
  auto* staging = new std::vector<char>(bytes);
  try {
    src_device.copy_to_host(staging->data(), src, bytes, stream);
    stream.synchronize();
    Stream& target = current_stream(dst_device);
    dst_device.copy_to_device(dst, staging->data(), bytes, target);
    target.synchronize();
  } catch (const Error& error) {
    // After a timeout, queued copies may still use the memory: leak it.
    if (error.status != HP_TIMEOUT) delete staging;
    throw;
  }
  delete staging;
}

bool Runtime::can_access(const Device& dst_device, const Device& src_device) const {
  if (&dst_device == &src_device) return true;
  if (plugin->peer.copy == nullptr) return false;
  if (plugin->peer.can_access == nullptr) return true;
  int yes = 0;
  HP_CHECK(plugin->peer.can_access(dst_device.index, src_device.index, &yes),
           "link from " + src_device.name() + " to " + dst_device.name());
  return yes != 0;
}

void Runtime::shut_down() {
  constexpr uint32_t kPatienceMs = 5000;  // a device that hangs must not keep the program from ending
  for (Runtime* runtime : mounted()) {
    const HpPlugin& table = runtime->plugin->table;
    if (table.shutdown == nullptr || runtime->process_ != getpid() || runtime->shut_down_.exchange(true)) continue;
    for (const auto& device : runtime->devices_) {
      if (device->allocator().stats().num_device_alloc > 0) device->drain(kPatienceMs);  // others were never used
    }
    table.shutdown(table.context);
  }
}

void Runtime::set_timeout_ms(uint32_t milliseconds) { wait_timeout_ms.store(milliseconds, std::memory_order_relaxed); }
uint32_t Runtime::timeout_ms() { return wait_timeout_ms.load(std::memory_order_relaxed); }

// ---- Thread state

int current_device(const Runtime& runtime) { return thread_states[runtime.slot].device; }

void set_current_device(const Runtime& runtime, int index) { thread_states[runtime.slot].device = index; }

Stream& current_stream(Device& device) {
  Stream* stream = thread_states[device.runtime.slot].streams[device.index];
  return stream != nullptr ? *stream : device.default_stream();
}

Stream& set_current_stream(Stream& stream) {
  Device& device = stream.device;
  Stream*& current = thread_states[device.runtime.slot].streams[device.index];
  Stream& previous = current != nullptr ? *current : device.default_stream();
  current = &stream;
  return previous;
}

}  // namespace hp
