// Collectives for devices without their own: through pinned host memory, with gloo between the processes. Worker
// threads of the group wait for the copies and the exchange, while the device computes.
#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <thread>

#include "distributed/comm_call.h"

namespace hp::torch_adapter {

// Runs jobs in order on one thread. The destructor does not wait for a running job, which may block on another process:
// the job must own everything that it uses.
class WorkerThread {
 public:
  ~WorkerThread();
  void push(std::function<void()> job);
  // Waits until all jobs have finished.
  void drain();

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> jobs;
    bool busy = false, stop = false;
  };
  static void run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;  // started by the first job
};

class Staging : public std::enable_shared_from_this<Staging> {
 public:
  Staging(c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<c10d::Backend> gloo);

  // `stream` already waits for the inputs.
  void run(const CommCall& call, const c10::Stream& stream);
  void drain();
  // Fails all running and queued calls with an error for their waiters.
  void abort();
  c10d::Backend& gloo() { return *gloo_; }

 private:
  void run_on_host(const CommCall& call, const c10::Stream& stream, Tensors& inputs, Tensors& outputs);
  // Throws if the ranks do not make the same call.
  void check_same_call(const CommCall& call);
  // Reports which ranks made the call, as far as they answer within kDiagnosis.
  std::string diagnosis(const CommCall& call) noexcept;
  std::string query_peers(const CommCall& call);
  WorkerThread& thread_for(CommCall::Kind kind) { return threads_[static_cast<int>(kind)]; }

  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::intrusive_ptr<c10d::Backend> gloo_;
  std::mutex mutex_;
  std::list<CommCall> pending_;
  bool aborted_ = false;
  // One thread per CommCall::Kind: a waiting receive must not block sends, nor either of them collectives.
  std::array<WorkerThread, 3> threads_;
};

}  // namespace hp::torch_adapter
