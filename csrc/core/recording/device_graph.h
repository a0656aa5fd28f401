// Captured device work, launched as a whole at the addresses of its capture. Made by a GraphCapture.
#pragma once

#include "core/memory/allocator.h"
#include "core/recording/recording.h"

namespace hp {

class DeviceGraph {
 public:
  DeviceGraph(Device& device, std::shared_ptr<MemoryPool> pool) : pool(std::move(pool)), device_(device) {}
  // Waits for the launches.
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;

  // Queues the captured work. Launches on different streams run one after another. `draw` reserves blocks of the
  // generator, once per draw of the capture and in its order. One thread at a time.
  void launch(Stream& stream, const Recording::DrawFunction& draw);

  // The steps as text, one per line.
  std::string describe() const;

  // ---- Filled in by GraphCapture
  std::vector<RecordedStep> steps;
  std::vector<uint64_t> draws;     // number of random blocks in each draw
  Stream* fault_stream = nullptr;  // the owner of the fault record that kernels write to; null: none does
  const std::shared_ptr<MemoryPool> pool;

 private:
  Device& device_;
  Stream* last_ = nullptr;  // of the last launch
};

}  // namespace hp
