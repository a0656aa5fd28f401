// The c10d backend "hardpoint": torch.distributed for device tensors. Collectives of the plug-in run on the group's own
// streams; the rest is staged through the host.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <map>
#include <memory>
#include <mutex>

#include "distributed/staging.h"

namespace hp::torch_adapter {

class ProcessGroup final : public c10d::Backend {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using TensorLists = std::vector<Tensors>;

  // `gloo` connects the same processes over host memory. `staged`: do not use the plug-in's collectives.
  ProcessGroup(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout,
               c10::intrusive_ptr<c10d::Backend> gloo, bool staged);
  ~ProcessGroup() override;

  const std::string getBackendName() const override { return "hardpoint"; }
  c10::intrusive_ptr<Options> getBackendOptions() override;
  bool supportsCoalescing() const override { return true; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return calls_[0]; }
  void eagerConnectSingleDevice(at::Device device) override;
  // The last call that c10d makes when it creates a group, on every rank. If the device is known by then, all ranks
  // connect now, and sends and receives go through the plug-in too. They could not connect later, when only two ranks
  // take part.
  void setGroupUid(const std::string& uid) override;
  void abort() override;
  void shutdown() override;

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int peer, int tag) override;
  WorkPtr recv(Tensors& tensors, int peer, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  void startCoalescing() override;
  WorkPtr endCoalescing() override;

 private:
  // The state of one local device in the group.
  struct Connection {
    std::unique_ptr<Communicator> communicator;  // null: staged
    // One stream per CommCall::Kind.
    std::array<Stream*, 3> streams{};
  };

  Connection& connection(Device& device);
  std::unique_ptr<Communicator> connect(Device& device, const std::string& key);
  // Starts the call, or collects it while coalescing.
  WorkPtr run(CommCall call, bool blocking = false);
  void start(c10::ArrayRef<CommCall> calls);
  WorkPtr all_gather_flat(const at::Tensor& to, const at::Tensor& from, Tensors results, std::function<void()> finish);
  WorkPtr all_to_all_rows(const at::Tensor& to, const at::Tensor& from, std::vector<int64_t> received,
                          std::vector<int64_t> sent, bool equal, Tensors results, std::function<void()> finish);
  WorkPtr receive(const at::Tensor& tensor, int peer, int tag);
  // `each(i)` issues the i-th of `count` calls.
  WorkPtr coalesced(size_t count, const std::function<WorkPtr(size_t)>& each);

  const c10::intrusive_ptr<c10d::Store> store_;
  std::chrono::milliseconds timeout_;
  const bool staged_only_;
  const std::shared_ptr<Staging> staging_;

  // Calls are made without the GIL: a plug-in written in Python may acquire it while this mutex is held.
  std::mutex mutex_;
  std::map<int, Connection> connections_;  // by device index
  bool point_to_point_ = false;            // sends and receives go through the plug-in
  std::array<uint64_t, 3> calls_{};        // by CommCall::Kind
  bool coalescing_ = false;
  std::vector<CommCall> coalesced_calls_;
};

}  // namespace hp::torch_adapter
