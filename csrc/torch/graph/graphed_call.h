// A function captured as a device graph. Called with other inputs of the same shapes, it copies them to the addresses
// of the capture and replays. For torch.compile(mode="reduce-overhead").
#pragma once

#include "graph/python_value.h"
#include "runtime/device_graph.h"

namespace hp::torch_adapter {

class GraphedCall {
 public:
  // `inputs` are those of the capture. Inputs in `fixed` must have the same address in every call; others are copied to
  // the address that the capture read.
  GraphedCall(std::shared_ptr<TorchGraph> graph, const std::vector<c10::IValue>& inputs, const std::vector<int>& fixed,
              const std::vector<c10::IValue>& outputs);

  // Whether the graph can run with these inputs: addresses and shapes match, and no result of an earlier call is alive,
  // which the replay would overwrite.
  bool accepts(const std::vector<c10::IValue>& inputs) const;
  std::vector<c10::IValue> run(const std::vector<c10::IValue>& inputs);

  // Whether the tensor is the result of a GraphedCall, so that later calls return one at the same address.
  static bool is_result(const at::Tensor& tensor);

 private:
  struct Input {
    size_t index;
    at::Tensor tensor;  // where the capture read it; undefined for a fixed input
    const void* address;
    std::vector<int64_t> sizes, strides;
  };
  struct Output {
    c10::IValue value;  // a number or None
    int input = -1;     // the input whose storage the tensor shares
    int storage = -1;   // else an index of storages_
    std::vector<int64_t> sizes, strides;
    int64_t offset = 0;
    at::ScalarType dtype = at::ScalarType::Undefined;
  };
  c10::Storage alias(const c10::Storage& storage) const;

  std::shared_ptr<TorchGraph> graph_;
  std::vector<Input> inputs_;
  std::vector<std::pair<size_t, int64_t>> numbers_;
  std::vector<Output> outputs_;
  std::vector<c10::Storage> storages_;           // of the outputs
  std::shared_ptr<std::atomic<int64_t>> alive_;  // storages handed out and not freed yet
};

}  // namespace hp::torch_adapter
