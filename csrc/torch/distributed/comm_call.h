// One collective, send or receive: its contiguous device tensors, and the two ways to run it.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "core/collectives/communicator.h"
#include "distributed/work.h"
#include "runtime/adapter.h"

namespace hp::torch_adapter {

using Tensors = std::vector<at::Tensor>;

// What all ranks must agree on: element count, dtype, reduction, root.
struct Signature {
  int64_t size = 0;
  c10::ScalarType dtype = c10::ScalarType::Byte;
  int reduction = -1;  // a c10d::ReduceOp::RedOpType, or -1
  int root = -1;

  std::string text() const;
};

struct CommCall {
  enum class Kind { kCollective, kSend, kReceive };

  CommCall(const char* name, c10d::OpType type, Signature signature, Kind kind = Kind::kCollective, int peer = -1)
      : name(name),
        op(Operator::intern(std::string("c10d::") + name)),
        type(type),
        signature(signature),
        kind(kind),
        peer(peer) {}

  const char* name;  // as in torch.distributed: "all_reduce"
  Operator& op;      // for counters, as for an ATen operator
  c10d::OpType type;
  Signature signature;
  Kind kind;
  int peer;             // of a send or receive; -1: any
  uint64_t number = 0;  // of the call among the group's calls of this kind
  // Contiguous, on the device. An in-place tensor is in both lists.
  Tensors inputs, outputs;
  // Returned to the caller, through the work's future.
  Tensors results;
  c10::intrusive_ptr<DeviceWork> work;
  std::shared_ptr<std::atomic<int>> source;  // the sender's rank, once a receive has completed
  // Queues the work on the stream through the plug-in. False if the plug-in cannot do it. Empty: staged only.
  std::function<bool(Communicator&, Stream&)> native;
  // Runs to completion on host copies of `inputs` and `outputs`, in that order; an in-place tensor is the same in both.
  std::function<void(c10d::Backend&, Tensors&, Tensors&)> staged;
  // Queued on the stream after the outputs are written, to copy them to the caller's tensors. May be empty.
  std::function<void()> finish;
};

}  // namespace hp::torch_adapter
