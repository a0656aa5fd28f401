// The work object of a collective: streams wait for it, and the host only when it must.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <memory>

#include "runtime/adapter.h"

namespace hp::torch_adapter {

class DeviceWork final : public c10d::Work {
 public:
  // `blocking`: wait() blocks the host, as a barrier requires.
  DeviceWork(int rank, c10d::OpType type, c10::Device device, std::vector<at::Tensor> results, bool blocking);

  c10::Device device() const { return future_->devices()[0]; }

  // Marks the work as fully queued on `stream`. Called once, by the thread that queued it.
  void queued(const c10::Stream& stream);
  void failed(std::exception_ptr error);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  std::vector<at::Tensor> result() override { return results_; }
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  int sourceRank() const override { return source_ == nullptr ? -1 : source_->load(); }
  void set_source(std::shared_ptr<std::atomic<int>> source) { source_ = std::move(source); }

 private:
  const std::vector<at::Tensor> results_;
  const bool blocking_;
  std::shared_ptr<std::atomic<int>> source_;  // of a receive
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  c10::Event end_;
};

// Several works that are waited for together.
class CoalescedWork final : public c10d::Work {
 public:
  CoalescedWork(int rank, c10d::OpType type, std::vector<c10::intrusive_ptr<c10d::Work>> works);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  std::vector<at::Tensor> result() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  const std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

}  // namespace hp::torch_adapter
