// Recorded runs of a graph's program: the launches of one run are recorded, then launched again at other addresses for
// inputs of the same sizes. Instructions that cannot be recorded are executed in between, as in a plain run.
#pragma once

#include <mutex>

#include "core/recording/recorder.h"
#include "graph/program.h"

namespace hp::torch_adapter {

// The location and layout of a tensor that a recorded run created.
struct RecordedTensor {
  int64_t memory = -1;  // -1: no elements
  int64_t offset = 0;   // in bytes
  std::vector<int64_t> sizes, strides;
  at::ScalarType dtype = at::ScalarType::Undefined;
};

// One recording of a program.
class RecordedRun {
 public:
  // Executes the program once and records it. Null with a reason if it cannot be recorded; `results` is set either way.
  static std::unique_ptr<RecordedRun> record(const GraphProgram& program, std::vector<c10::IValue> inputs,
                                             std::vector<c10::IValue>& results, std::string& reason);

  // False if the inputs overlap differently than in the recording; nothing was launched then.
  bool replay(const GraphProgram& program, std::vector<c10::IValue>& inputs, std::vector<c10::IValue>& results);

  const Recording& recording() const { return *recording_; }
  // Instructions that each replay executes, and why they are not recorded.
  const std::vector<std::pair<std::string, std::string>>& left_out() const { return left_out_; }

 private:
  friend class RunRecorder;
  friend class RunReplayer;

  struct Action {
    enum Kind { kAllocate, kFree, kRelease, kExecute } kind;
    size_t step;   // it happens before this step
    size_t index;  // of a memory, register or instruction
    size_t tick;   // orders all actions
  };
  struct RecordedInput {
    size_t memory;
    int reg;
    int64_t distance;  // of its first byte from the start of the memory
  };
  std::unique_ptr<Recording> recording_;
  std::vector<RecordedInput> inputs_;
  std::vector<Action> actions_;
  // Recorded tensors in registers that an executed instruction or an output reads.
  std::vector<std::pair<int, RecordedTensor>> tensors_;
  // Numbers computed from the inputs' sizes.
  std::vector<std::pair<int, c10::IValue>> numbers_;
  // Memory allocated by an executed instruction: the register that holds it, and the tensor's offset in it.
  struct ExternalMemory {
    size_t instruction, memory;
    int reg;
    int64_t offset;
  };
  std::vector<ExternalMemory> external_;
  std::vector<std::pair<std::string, std::string>> left_out_;
};

// A program and its recordings. hardpoint.graph calls it.
class GraphRunner {
 public:
  explicit GraphRunner(std::shared_ptr<const GraphProgram> program) : program_(std::move(program)) {}
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs);

  const GraphProgram& program() const { return *program_; }
  bool record = true;
  // Number of plain, recorded and replayed runs.
  std::array<std::atomic<uint64_t>, 3> runs{};
  // Why the last attempt to record failed.
  std::string reason() const;
  // The latest recording, or null. Valid until the next run.
  const RecordedRun* latest() const { return latest_; }

 private:
  struct Entry {
    std::vector<int64_t> signature;
    bool refused = false;
    std::unique_ptr<RecordedRun> run;
  };
  static constexpr size_t kMaxEntries = 64;

  std::shared_ptr<const GraphProgram> program_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::string reason_;
  const RecordedRun* latest_ = nullptr;
};

}  // namespace hp::torch_adapter
