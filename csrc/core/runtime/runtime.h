// A mounted plug-in: its devices, streams and events, as used by the adapters and the rest of the core.
//
// Locking rule of the core: never call a plug-in function while holding a lock of the core. A plug-in may be written in
// Python and take the GIL, which another thread may hold while it waits for that lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/runtime/device_fault.h"
#include "core/runtime/error.h"
#include "core/runtime/plugin.h"

namespace hp {

constexpr int kMaxDevices = 64;
constexpr int kMaxRuntimes = 8;

class CachingAllocator;
class Device;
class GraphCapture;
class Runtime;
struct Operator;

// Streams are never destroyed: pointers and handles stay valid until the process ends.
class Stream {
 public:
  Device& device;
  const int64_t id;  // 0 is the device's default stream
  const int priority;
  HpStream handle() const { return handle_.load(std::memory_order_relaxed); }
  // The graph capture that takes this stream's work (recording/graph_capture.h), or null.
  GraphCapture* capture() const { return capture_.load(std::memory_order_relaxed); }

  // Waits for the stream and throws the fault that a kernel recorded, if any (device_fault.h).
  void synchronize();
  // The same without checking for faults: for waits that the user's program did not request.
  void wait();
  bool query();
  // Calls function(data) once the work queued so far is done, on any thread, or here if the plug-in cannot.
  void call_host(void (*function)(void* data), void* data);
  // Device address of the fault record, for a kernel about to be launched on this stream.
  void* fault_record();
  // A launch on this stream uses the fault record of `other`, so this stream's next synchronization reads it too.
  void watch_faults_of(Stream& other);

  // Remembers the last few operators launched, to name them in the error if the stream fails or hangs.
  void note_launch(const Operator* op) {
    recent_[launches_.fetch_add(1, std::memory_order_relaxed) % recent_.size()].store(op, std::memory_order_relaxed);
  }
  // Kernels launched since the stream was created.
  uint64_t launches() const { return launches_.load(std::memory_order_relaxed); }
  // The operator launched last, or null.
  const Operator* last_operator() const {
    const uint64_t count = launches();
    return count == 0 ? nullptr : recent_[(count - 1) % recent_.size()].load(std::memory_order_relaxed);
  }

 private:
  friend class Device;
  friend class Event;
  friend class GraphCapture;
  Stream(Device& device, int64_t id, int priority, HpStream handle)
      : device(device), id(id), priority(priority), handle_(handle) {}
  std::string recent_operators() const;

  std::atomic<HpStream> handle_;  // the capturing stream's, while this one takes part in its capture
  std::atomic<GraphCapture*> capture_{nullptr};
  DeviceFault fault_;
  std::atomic<bool> watches_faults_{false};
  std::mutex watched_mutex_;
  std::vector<Stream*> watched_;
  std::atomic<uint64_t> launches_{0};
  std::atomic<uint64_t> synchronized_launches_{0};
  std::array<std::atomic<const Operator*>, 8> recent_{};
};

// A recorded point in a stream. If the plug-in has no events, recording synchronizes the stream.
class Event {
 public:
  Device& device;
  const bool timing;
  Event(const Event&) = delete;

  void record(Stream& stream);
  void block(Stream& stream);
  void synchronize();
  bool query();
  double elapsed_ms(const Event& end) const;
  bool recorded() const { return recorded_; }
  // Whether the latest record is part of a graph capture: the device never reaches it.
  bool captured() const { return captured_in_ != 0; }

 private:
  friend class Device;
  Event(Device& device, bool timing, HpEvent handle) : device(device), timing(timing), handle_(handle) {}
  HpEvent handle_;
  Stream* stream_ = nullptr;  // last recorded on
  bool recorded_ = false;
  uint64_t captured_in_ = 0;  // number of the capture; 0: none
  int64_t host_time_ns_ = 0;  // replaces the device timestamp if the plug-in has no events
};

class Device {
 public:
  Runtime& runtime;
  const int index;
  const Plugin& plugin;

  std::string name() const;  // "sim:0"
  // For a function that returned HP_OK and no handle.
  Error null_handle(const char* function, const char* what) const;

  Stream& default_stream() { return *streams_[0]; }
  Stream& stream(int64_t id);
  // The stream of a plug-in's handle, or null.
  Stream* find_stream(HpStream handle) const;
  // Creates up to kPoolSize streams per priority level, then returns them round-robin.
  Stream& pool_stream(int priority);
  Stream& new_stream(int priority);

  // Events are pooled: return them with release_event.
  Event* acquire_event(bool timing);
  void release_event(Event* event) noexcept;

  void synchronize();

  CachingAllocator& allocator() { return *allocator_; }
  HpProperties properties() const;
  // Work-items per group that suit the device, 1 on a CPU; and the bytes of local memory per group. 0 without a
  // compiler.
  uint32_t group_size() const {
    const uint32_t known = group_size_.load(std::memory_order_relaxed);
    return known != 0 ? known : read_launch_limits().first;
  }
  uint32_t local_memory() const { return read_launch_limits().second; }
  // {free, total} in bytes; {0, 0} without HpInfo.memory.
  std::pair<uint64_t, uint64_t> memory_info() const;

  // Checked plug-in calls, ordered on `stream`.
  void copy_to_device(void* dst, const void* src, size_t bytes, Stream& stream);
  void copy_to_host(void* dst, const void* src, size_t bytes, Stream& stream);
  void copy_on_device(void* dst, const void* src, size_t bytes, Stream& stream);
  // Sets every byte to `value`: HpPlugin.fill_memory, else copies of a pattern.
  void fill(void* dst, uint8_t value, size_t bytes, Stream& stream);

  static constexpr int kPoolSize = 32;
  static constexpr int kMaxStreams = 1024;  // beyond this, new_stream returns existing streams

 private:
  friend class Runtime;
  Device(Runtime& runtime, int index);
  std::pair<uint32_t, uint32_t> read_launch_limits() const;
  // Waits for every stream, each for `timeout_ms` at most. Ignores failures.
  void drain(uint32_t timeout_ms) noexcept;

  mutable std::atomic<uint32_t> group_size_{0};  // 0: not read yet
  std::mutex mutex_;
  // Each slot is written once: stream() reads them without a lock.
  std::array<std::atomic<Stream*>, kMaxStreams> streams_{};
  std::atomic<int> num_streams_{0};
  std::array<std::vector<Stream*>, 2> pool_;
  std::array<std::atomic<uint32_t>, 2> next_pool_{};
  std::array<std::vector<Event*>, 2> free_events_;
  CachingAllocator* allocator_;
};

class Runtime {
 public:
  const std::shared_ptr<const Plugin> plugin;
  const std::string& name() const { return plugin->name; }
  const int slot;  // index among the mounted runtimes
  int device_count() const { return static_cast<int>(devices_.size()); }
  Device& device(int index);

  // Mounts a plug-in. Runtimes are never destroyed; mounting the same name twice throws.
  static Runtime& mount(std::shared_ptr<const Plugin> plugin);
  static std::vector<Runtime*> mounted();

  // Copies between two devices of this runtime, ordered on `stream`, a stream of `src_device`.
  void copy_peer(Device& dst_device, void* dst, Device& src_device, const void* src, size_t bytes, Stream& stream);

  // Whether two devices have a direct link.
  bool can_access(const Device& dst_device, const Device& src_device) const;

  // Calls HpPlugin.shutdown of every mounted plug-in, once, when the program ends. Does nothing in a child of fork().
  static void shut_down();

  // Milliseconds after which a wait fails with HP_TIMEOUT; 0 waits forever.
  static void set_timeout_ms(uint32_t milliseconds);
  static uint32_t timeout_ms();

 private:
  Runtime(std::shared_ptr<const Plugin> plugin, int slot);
  std::vector<std::unique_ptr<Device>> devices_;
  const int process_;  // id of the process that mounted it
  std::atomic<bool> shut_down_{false};
};

// Current device and streams of this thread, per runtime.
int current_device(const Runtime& runtime);
void set_current_device(const Runtime& runtime, int index);
Stream& current_stream(Device& device);
// Returns the previous stream.
Stream& set_current_stream(Stream& stream);

}  // namespace hp
