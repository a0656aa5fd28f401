// Streams: FIFO queues with one worker thread each.
//
// Handing a tiny task to another thread costs more than running it. If the stream is idle, such a task runs on the
// calling thread, under the stream's lock to preserve the order. All other tasks go to the worker, so the device is
// truly asynchronous.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "config.h"
#include "hardpoint/plugin.h"
#include "host.h"
#include "runtime/fault_injection.h"
#include "runtime/stream_error.h"
#include "runtime/trace.h"

namespace sim {

// Communication waits for other processes, so it never runs on the calling thread.
enum class TaskKind { kernel, copy, fill, marker, communication };

// A task that a graph queues again at each of its launches.
struct CapturedTask {
  TaskKind kind;
  bool tiny;
  const char* operator_name;
  std::function<void()> run;
};

// The operator of the captured task that this thread is queuing; null outside launches of graphs.
inline thread_local const char* captured_operator = nullptr;
inline const char* operator_name() { return captured_operator ? captured_operator : host->operator_name(); }

class Stream {
 public:
  Stream(int device, int number) : device_(device), number_(number) {}
  Stream(const Stream&) = delete;

  int device() const { return device_; }
  bool in_use() const { return in_use_.load(std::memory_order_relaxed); }

  // Calls `work` once, here or on the worker. `tiny`: cheap enough to run here if the stream is idle.
  template <class Work>
  void submit(TaskKind kind, bool tiny, Work&& work);

  // Until end_capture, `submit` stores tasks instead of queuing them. False if a capture is active.
  bool begin_capture();
  std::vector<CapturedTask> end_capture();

  HpStatus synchronize(uint32_t timeout_ms);
  // The first error since the last report, or null.
  StreamErrorPtr error();
  // Records an error of other work that this stream's later work depends on.
  void inherit_error(StreamErrorPtr error);
  bool idle() const { return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_acquire); }

  // A destroyed stream finishes its work; `create` later reuses its thread and ring.
  void retire() { in_use_.store(false, std::memory_order_relaxed); }
  bool try_reuse();

 private:
  static constexpr uint64_t kSlots = 1024;
  static constexpr size_t kTaskBytes = 640;

  struct InjectedFaults {
    uint64_t failure = 0, hang = 0;  // fault list versions, 0 for none
  };

  struct Slot {
    void (*run)(void* work, bool skip);  // runs `work` unless `skip`, then destroys it
    const char* operator_name;
    TaskKind kind;
    uint64_t launch;  // its number in a trace; 0: untraced
    InjectedFaults injected;
    alignas(16) unsigned char work[kTaskBytes];
  };

  static InjectedFaults inject(TaskKind kind);
  // Applies injected faults to a task. Returns true if the task must not run.
  bool apply_faults(const InjectedFaults& injected, TaskKind kind, const char* operator_name);
  void record_error(HpStatus status, const char* operator_name, const char* what);
  TaskTrace trace_task(uint64_t launch, TaskKind kind);

  Slot& wait_for_slot(std::unique_lock<std::mutex>& lock);
  void publish();
  void start_worker();
  void run_worker();
  void wait_for_work();
  void jitter(uint64_t ticket) const;
  HpStatus timeout_error(uint64_t target) const;

  const int device_, number_;
  std::atomic<bool> in_use_{true};

  std::mutex mutex_;  // guards the ring's tail, the sleep flags, the capture and inline work
  std::condition_variable work_ready_, work_done_;
  bool worker_sleeps_ = false;
  int waiters_ = 0;
  bool capturing_ = false;
  std::vector<CapturedTask> captured_;
  // Number of tasks finished and queued so far; task n uses slot n % kSlots.
  std::atomic<uint64_t> head_{0}, tail_{0};
  std::unique_ptr<Slot[]> ring_;  // allocated when the worker starts

  std::atomic<bool> has_error_{false};
  std::mutex error_mutex_;
  StreamErrorPtr error_;  // the first since the last report

  // The running task, for timeout messages.
  std::atomic<const char*> running_operator_{nullptr};
  std::atomic<int64_t> running_since_{0};  // steady clock, ns
};

inline Stream::InjectedFaults Stream::inject(TaskKind kind) {
  InjectedFaults injected;
  if (!faults_armed() || kind == TaskKind::marker) return injected;
  const char* const name = operator_name();
  const bool copies = kind == TaskKind::copy || kind == TaskKind::fill;
  injected.failure = take_fault(copies ? FaultKind::copy : FaultKind::kernel, name);
  if (!copies) injected.hang = take_fault(FaultKind::hang, name);
  return injected;
}

template <class Work>
void Stream::submit(TaskKind kind, bool tiny, Work&& work) {
  using Task = std::decay_t<Work>;
  static_assert(sizeof(Task) <= kTaskBytes && alignof(Task) <= 16, "the task must fit into a slot");
  std::unique_lock<std::mutex> lock(mutex_);
  if (__builtin_expect(capturing_, 0)) {
    if (kind == TaskKind::communication) throw StatusError(HP_NOT_SUPPORTED, "a graph cannot capture a collective");
    auto task = std::make_shared<Task>(std::forward<Work>(work));
    captured_.push_back({kind, tiny, operator_name(), [task] { (*task)(); }});
    return;
  }
  const InjectedFaults injected = inject(kind);
  const bool faulted = injected.failure != 0 || injected.hang != 0;
  const uint64_t launch = kind == TaskKind::marker ? 0 : traced_launch();
  // A deterministic device is always idle here, except behind communication.
  if (kind != TaskKind::communication && idle() && (config.deterministic || (tiny && !faulted && !config.jitter))) {
    if (faulted && apply_faults(injected, kind, operator_name())) return;
    TaskTrace trace = trace_task(launch, kind);
    work();
    trace.finish();
    return;
  }
  Slot& slot = wait_for_slot(lock);
  new (slot.work) Task(std::forward<Work>(work));
  slot.run = [](void* stored, bool skip) {
    Task& task = *static_cast<Task*>(stored);
    struct Destroy {
      Task& task;
      ~Destroy() { task.~Task(); }
    } destroy{task};
    if (!skip) task();
  };
  slot.operator_name = operator_name();
  slot.kind = kind;
  slot.launch = launch;
  slot.injected = injected;
  publish();
}

// Resolves a stream handle; NULL is the default stream. Returns null, with the reason in host->fail, if the stream was
// destroyed or belongs to another device.
Stream* find_stream(int device, HpStream handle);

// Creates the default streams. Workers start on first use.
void create_default_streams();

HpStatus create_stream(int device, int priority, HpStream* handle);
HpStatus destroy_stream(int device, HpStream handle);
HpStatus synchronize_stream(int device, HpStream handle, uint32_t timeout_ms);
HpStatus query_stream(int device, HpStream handle);
HpStatus call_host(int device, HpStream handle, void (*function)(void* data), void* data);

}  // namespace sim
