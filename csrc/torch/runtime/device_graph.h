// Device graphs for torch: torch.accelerator.Graph and torch.<device>.graph.
#pragma once

#include <c10/core/Allocator.h>

#include "core/recording/graph_capture.h"
#include "runtime/adapter.h"

// torch.accelerator.Graph: torch 2.13 and later.
#if __has_include(<ATen/core/GraphImplInterface.h>)
#define HP_TORCH_GRAPHS
#endif

namespace hp::torch_adapter {

class TorchGraph {
 public:
  ~TorchGraph();

  // Captures the current device's current stream. Graphs with the same `pool` share memory; {0, 0} makes a new pool.
  void capture_begin(c10::MempoolId_t pool);
  void capture_end();
  // Ends a capture after an error in the captured code; never throws.
  void abandon() noexcept;
  // Queues the captured work on the current stream.
  void replay();
  // Waits for replays and frees the graph; the next capture may begin.
  void reset();
  c10::MempoolId_t pool() const { return pool_; }
  std::string describe() const;

 private:
  void restore_generator();

  c10::MempoolId_t pool_{0, 0};
  int device_ = -1;
  uint64_t seed_ = 0, offset_ = 0;  // of the default generator before the capture
  std::unique_ptr<GraphCapture> capture_;
  std::unique_ptr<DeviceGraph> graph_;
};

// A new id for `pool`.
c10::MempoolId_t new_graph_pool();

// Makes torch.accelerator.Graph work, if torch has it. Called once, by attach().
void register_graphs();

}  // namespace hp::torch_adapter
