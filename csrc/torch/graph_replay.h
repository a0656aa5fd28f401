// Recorded runs of a graph's program: what one run launched is kept and launched again, with other addresses, for
// inputs of the same sizes. What cannot be recorded is executed between the pieces, as in a plain run.
#pragma once

#include <mutex>

#include "../core/recorder.h"
#include "graph_program.h"

namespace hp::torch_adapter {

// A tensor that a recorded run made: where it is, and how it is laid out.
struct RecordedTensor {
  int64_t memory = -1;  // -1: it has no elements
  int64_t offset = 0;   // in bytes
  std::vector<int64_t> sizes, strides;
  at::ScalarType dtype = at::ScalarType::Undefined;
};

// One recording of a program.
class RecordedRun {
 public:
  // Executes the program for once, and records it. Null if it cannot be recorded, with the reason.
  static std::unique_ptr<RecordedRun> record(const GraphProgram& program, std::vector<c10::IValue> inputs,
                                             std::vector<c10::IValue>& results, std::string& reason);

  // False where inputs lie to each other as they did not when it was recorded: nothing was launched.
  bool replay(const GraphProgram& program, std::vector<c10::IValue>& inputs, std::vector<c10::IValue>& results);

  const Recording& recording() const { return *recording_; }
  // Instructions that are executed as in a plain run, and why.
  const std::vector<std::pair<std::string, std::string>>& left_out() const { return left_out_; }

 private:
  friend class RunRecorder;
  friend class RunReplayer;

  struct Action {
    enum Kind { kAllocate, kFree, kRelease, kExecute } kind;
    size_t step;   // before which it happens
    size_t index;  // of memory, register or instruction
    size_t tick;   // the order of all
  };
  struct Given {
    size_t memory;
    int reg;
    int64_t distance;  // of its first byte from the memory's
  };
  std::unique_ptr<Recording> recording_;
  std::vector<Given> given_;
  std::vector<Action> actions_;
  // Of registers that instructions between the pieces read, and of outputs: tensors that were recorded.
  std::vector<std::pair<int, RecordedTensor>> tensors_;
  // Numbers that were computed from the inputs' sizes.
  std::vector<std::pair<int, c10::IValue>> numbers_;
  // Memory that such an instruction makes: the register that holds it, and the tensor's place in it.
  struct Foreign {
    size_t instruction, memory;
    int reg;
    int64_t offset;
  };
  std::vector<Foreign> foreign_;
  std::vector<std::pair<std::string, std::string>> left_out_;
};

// A program with its recordings: what hardpoint.graph calls.
class GraphRunner {
 public:
  explicit GraphRunner(std::shared_ptr<const GraphProgram> program) : program_(std::move(program)) {}
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs);

  const GraphProgram& program() const { return *program_; }
  bool record = true;
  // How many runs were plain, recorded, replayed.
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
  static constexpr size_t kMostEntries = 64;

  std::shared_ptr<const GraphProgram> program_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::string reason_;
  const RecordedRun* latest_ = nullptr;
};

}  // namespace hp::torch_adapter
