// Streams: first in, first out, one worker thread each.
//
// Handing a task to another thread costs more than a tiny task itself. When the stream is idle such a task runs at once
// on the calling thread, under the stream's lock, which keeps its place in the order: nothing can be queued meanwhile.
// All other tasks go to the worker, so that the device is truly asynchronous.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "config.h"
#include "failure.h"
#include "fault.h"
#include "hardpoint/plugin.h"
#include "host.h"

namespace sim {

// Communication waits for other processes: it never runs on the calling thread.
enum class TaskKind { kernel, copy, marker, communication };

class Stream {
 public:
  Stream(int device, int number) : device_(device), number_(number) {}
  Stream(const Stream&) = delete;

  int device() const { return device_; }
  bool alive() const { return alive_.load(std::memory_order_relaxed); }

  // `work` is called once, here or on the worker. `tiny`: worth running here when the stream is idle.
  template <class Work>
  void submit(TaskKind kind, bool tiny, Work&& work);

  HpStatus synchronize(uint32_t timeout_ms);
  // The first failure since the last report; null if there is none.
  FailurePointer failure();
  // Of work elsewhere that this stream's further work depends on.
  void inherit(FailurePointer failure);
  bool idle() const { return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_acquire); }

  // A destroyed stream finishes its work. Its thread and its ring are used again by a later `create`.
  void retire() { alive_.store(false, std::memory_order_relaxed); }
  bool revive();

 private:
  static constexpr uint64_t kSlots = 1024;
  static constexpr size_t kTaskBytes = 640;

  struct Injected {
    uint64_t failure = 0, hang = 0;  // fault versions, 0 for none
  };

  struct Slot {
    void (*run)(void* work, bool skip);  // destroys `work` as well; `skip`: only that
    const char* operator_name;
    TaskKind kind;
    Injected injected;
    alignas(16) unsigned char work[kTaskBytes];
  };

  static Injected inject(TaskKind kind);
  // Fault injection around one task: true when the task's own work must not run.
  bool suffer(const Injected& injected, TaskKind kind, const char* operator_name);
  void note_failure(HpStatus status, const char* operator_name, const char* what);

  Slot& wait_for_slot(std::unique_lock<std::mutex>& lock);
  void publish();
  void start_worker();
  void work_for_ever();
  void wait_for_work();
  void jitter(uint64_t ticket) const;
  HpStatus timed_out(uint64_t target) const;

  const int device_, number_;
  std::atomic<bool> alive_{true};

  std::mutex mutex_;  // guards the ring's tail, the sleeping flags, and inline work
  std::condition_variable work_ready_, work_done_;
  bool worker_sleeps_ = false;
  int waiters_ = 0;
  // Tasks finished and tasks queued since the beginning; the slot of a task is its number modulo kSlots.
  std::atomic<uint64_t> head_{0}, tail_{0};
  std::unique_ptr<Slot[]> ring_;  // made together with the worker

  std::atomic<bool> failed_{false};
  std::mutex failure_mutex_;
  FailurePointer failure_;  // the first one since the last report

  // What the worker is at, for the message of a timeout.
  std::atomic<const char*> running_operator_{nullptr};
  std::atomic<int64_t> running_since_{0};  // steady clock, ns
};

inline Stream::Injected Stream::inject(TaskKind kind) {
  Injected injected;
  if (!faults_armed() || kind == TaskKind::marker) return injected;
  const char* const name = host->operator_name();
  injected.failure = strikes(kind == TaskKind::copy ? FaultKind::copy : FaultKind::kernel, name);
  if (kind != TaskKind::copy) injected.hang = strikes(FaultKind::hang, name);
  return injected;
}

template <class Work>
void Stream::submit(TaskKind kind, bool tiny, Work&& work) {
  using Task = std::decay_t<Work>;
  static_assert(sizeof(Task) <= kTaskBytes && alignof(Task) <= 16, "the task must fit into a slot");
  const Injected injected = inject(kind);
  const bool struck = injected.failure != 0 || injected.hang != 0;
  std::unique_lock<std::mutex> lock(mutex_);
  // A deterministic device is idle, except behind communication.
  if (kind != TaskKind::communication && idle() && (config.deterministic || (tiny && !struck && !config.jitter))) {
    if (struck && suffer(injected, kind, host->operator_name())) return;
    work();
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
  slot.operator_name = host->operator_name();
  slot.kind = kind;
  slot.injected = injected;
  publish();
}

// Finds the stream behind a handle of the contract; NULL is the default stream. Null, with the reason stored through
// host->fail, when it does not belong to the device or was destroyed.
Stream* find_stream(int device, HpStream handle);

// Makes the default streams. Workers start when they are first needed.
void open_streams();

HpStatus create_stream(int device, int priority, HpStream* handle);
HpStatus destroy_stream(int device, HpStream handle);
HpStatus synchronize_stream(int device, HpStream handle, uint32_t timeout_ms);
HpStatus query_stream(int device, HpStream handle);

}  // namespace sim
