// A mounted plug-in: its devices, streams and events. Adapters work with these classes only.
//
// Locking rule of the core: no function of a plug-in is called while one of our locks is held. A plug-in may be written
// in Python and need the interpreter's lock, which another thread may hold while it waits for ours.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device_fault.h"
#include "error.h"
#include "plugin.h"

namespace hp {

constexpr int kMaxDevices = 64;
constexpr int kMaxRuntimes = 8;

class CachingAllocator;
class Device;
class Runtime;
struct Operator;

// Streams live as long as the process: handles are shared freely and never dangle.
class Stream {
 public:
  Device& device;
  const int64_t id;  // 0 is the device's default stream
  const int priority;
  HpStream handle() const { return handle_; }

  // Waits, and throws what kernels found wrong with their data.
  void synchronize();
  // The same without a look at what kernels found: for waits that the program did not ask for.
  void wait();
  bool query();
  // Where a kernel that is about to be launched may write what it finds wrong.
  void* fault_words() { return fault_.arm(*this); }

  // Remembers the operators launched since the last synchronisation, to name them when one fails or hangs.
  void note_launch(const Operator* op) {
    recent_[launches_.fetch_add(1, std::memory_order_relaxed) % recent_.size()].store(op, std::memory_order_relaxed);
  }
  // Kernels launched since the stream was made.
  uint64_t launches() const { return launches_.load(std::memory_order_relaxed); }

 private:
  friend class Device;
  friend class Event;
  Stream(Device& device, int64_t id, int priority, HpStream handle)
      : device(device), id(id), priority(priority), handle_(handle) {}
  std::string recent_operators() const;

  HpStream handle_;
  DeviceFault fault_;
  std::atomic<uint64_t> launches_{0};
  std::atomic<uint64_t> synchronized_launches_{0};
  std::array<std::atomic<const Operator*>, 8> recent_{};
};

// A recorded point of a stream. Without the plug-in's events, recording synchronises the stream.
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

 private:
  friend class Device;
  Event(Device& device, bool timing, HpEvent handle) : device(device), timing(timing), handle_(handle) {}
  HpEvent handle_;
  Stream* stream_ = nullptr;  // of the latest record
  bool recorded_ = false;
  int64_t host_time_ns_ = 0;  // stands in for the device's clock where it has none
};

class Device {
 public:
  Runtime& runtime;
  const int index;
  const Plugin& plugin;

  std::string name() const;  // "sim:0"

  Stream& default_stream() { return *streams_[0]; }
  Stream& stream(int64_t id);
  // A stream of the pool: kPoolSize of each priority are made, then shared round-robin.
  Stream& pool_stream(int priority);
  Stream& new_stream(int priority);

  // Events are pooled: give them back with release_event.
  Event* acquire_event(bool timing);
  void release_event(Event* event) noexcept;

  void synchronize();

  CachingAllocator& allocator() { return *allocator_; }
  HpProperties properties() const;
  // {free, total}; {0, 0} where the plug-in does not say.
  std::pair<uint64_t, uint64_t> memory_info() const;

  // Checked calls of the plug-in, ordered on `stream`.
  void copy_to_device(void* dst, const void* src, size_t bytes, Stream& stream);
  void copy_to_host(void* dst, const void* src, size_t bytes, Stream& stream);
  void copy_on_device(void* dst, const void* src, size_t bytes, Stream& stream);

  static constexpr int kPoolSize = 32;
  static constexpr int kMaxStreams = 1024;  // beyond that, new_stream shares existing ones

 private:
  friend class Runtime;
  Device(Runtime& runtime, int index);

  std::mutex mutex_;
  // Fixed slots, written once: stream() reads them without a lock.
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
  const int slot;  // position among the mounted runtimes
  int device_count() const { return static_cast<int>(devices_.size()); }
  Device& device(int index);

  // Mounts a plug-in. Runtimes live until the process ends; mounting the same name twice is an error.
  static Runtime& mount(std::shared_ptr<const Plugin> plugin);
  static std::vector<Runtime*> mounted();

  // dst and src belong to this runtime; ordered on `stream`, which is src's.
  void copy_peer(Device& dst_device, void* dst, Device& src_device, const void* src, size_t bytes, Stream& stream);

  // Time after which a wait is reported as a hang, in milliseconds; 0 waits for ever.
  static void set_timeout_ms(uint32_t milliseconds);
  static uint32_t timeout_ms();

 private:
  Runtime(std::shared_ptr<const Plugin> plugin, int slot);
  std::vector<std::unique_ptr<Device>> devices_;
};

// Current device and streams of this thread, per runtime (a process rarely has more than one or two).
int current_device(const Runtime& runtime);
void set_current_device(const Runtime& runtime, int index);
Stream& current_stream(Device& device);
// Returns the previous one.
Stream& set_current_stream(Stream& stream);

}  // namespace hp
