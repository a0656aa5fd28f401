// One collective call: the dense tensors that it reads and writes, and the two ways to run it.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "../../core/communicator.h"
#include "../adapter.h"
#include "work.h"

namespace hp::torch_adapter {

using Tensors = std::vector<at::Tensor>;

// What must be equal in every process: sizes in bytes or elements, dtype, operation, root.
struct Signature {
  int64_t size = 0;
  c10::ScalarType dtype = c10::ScalarType::Byte;
  int reduction = -1;  // a c10d::ReduceOp::RedOpType, or none
  int root = -1;

  std::string text() const;
};

struct Call {
  enum class Kind { kCollective, kSend, kReceive };

  Call(const char* name, c10d::OpType type, Signature signature, Kind kind = Kind::kCollective, int peer = -1)
      : name(name),
        op(Operator::intern(std::string("c10d::") + name)),
        type(type),
        signature(signature),
        kind(kind),
        peer(peer) {}

  const char* name;  // as in torch.distributed: "all_reduce"
  Operator& op;      // counted like one of torch's
  c10d::OpType type;
  Signature signature;
  Kind kind;
  int peer;             // of a send or a receive; -1: any
  uint64_t number = 0;  // among the group's calls of this kind
  // Dense, on the device. An output that is an input too is in both lists.
  Tensors inputs, outputs;
  // What the caller gets; told to the future.
  Tensors results;
  c10::intrusive_ptr<DeviceWork> work;
  std::shared_ptr<std::atomic<int>> source;  // of a receive: who sent, once it is there
  // Queues the work on the stream through the plug-in, or says that it cannot.
  std::function<bool(Communicator&, Stream&)> native;
  // Runs, to the end, on copies in host memory, in the order of inputs and outputs; an output that is an input is the
  // same tensor.
  std::function<void(c10d::Backend&, Tensors&, Tensors&)> staged;
  // On the stream, after the outputs are there: brings them to where the caller wants them. May be empty.
  std::function<void()> finish;
};

}  // namespace hp::torch_adapter
