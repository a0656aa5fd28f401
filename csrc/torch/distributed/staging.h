// Collectives for devices without their own: through pinned host memory, and gloo between the processes. The host
// copies, the exchange and the copies back are done by threads of the group, so that the device computes meanwhile.
#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <thread>

#include "call.h"

namespace hp::torch_adapter {

// Runs jobs one after another. A job that is under way when this ends, and may wait for another process for long, is
// left alone: it must keep what it uses.
class HostThread {
 public:
  ~HostThread();
  void push(std::function<void()> job);
  // Waits until nothing is queued.
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

  // The stream has been made to wait for the inputs.
  void run(const Call& call, const c10::Stream& stream);
  void drain();
  // Ends what is under way and what is queued, for those who wait for it, with a failure.
  void abort();
  c10d::Backend& gloo() { return *gloo_; }

 private:
  void serve(const Call& call, const c10::Stream& stream, Tensors& inputs, Tensors& outputs);
  // Throws where the processes do not call the same.
  void compare(const Call& call);
  // Who called what, as far as the others tell within a moment.
  std::string diagnosis(const Call& call) noexcept;
  std::string ask_others(const Call& call);
  HostThread& thread_for(Call::Kind kind) { return threads_[static_cast<int>(kind)]; }

  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::intrusive_ptr<c10d::Backend> gloo_;
  std::mutex mutex_;
  std::list<Call> pending_;
  bool aborted_ = false;
  // A receive that waits must not hold up a send, nor either a collective.
  std::array<HostThread, 3> threads_;
};

}  // namespace hp::torch_adapter
