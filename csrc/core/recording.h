// What an execution launched, kept so that it can be launched again with other memory: no dispatcher, no shape rules
// and no allocator in between. Made by a Recorder (recorder.h).
#pragma once

#include <dlpack/dlpack.h>
#include <tvm/ffi/c_api.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "memory_plan.h"
#include "operator.h"
#include "philox.h"
#include "portable.h"
#include "runtime.h"

namespace hp {

// Memory that steps refer to by its number.
struct RecordedMemory : PlannedBuffer {
  enum Kind {
    kFault,      // number 0: the stream's own words for faults
    kGiven,      // the caller's, before the execution
    kTemporary,  // made and freed by the execution: a place in the arena
    kSeparate,   // the same, in memory of its own: an arena that held it would need more in all
    kKept,       // made by the execution, and still there when it ended
    kForeign,    // made by a part that could not be recorded
  } kind;
  size_t made = 0, freed = 0;  // when, among all that happened (Recorder::tick)
};

// One launch. Addresses are written into its arguments before each replay.
struct RecordedStep {
  enum Kind { kPortable, kVendor, kCopy } kind;
  Operator* op;
  size_t tick = 0;  // when, among all that happened (Recorder::tick)

  struct Patch {
    void** address;  // null for a copy
    uint32_t memory;
    int64_t offset;
  };
  std::vector<Patch> patches;
  // Where a random kernel's arguments begin: `draw` blocks are taken from the generator, and it starts `delta` further.
  struct Draw {
    size_t draw;
    uint64_t delta;
    int64_t *seed, *offset;
  };
  std::vector<Draw> draws;

  // Portable kernels.
  const PortableKernel* portable = nullptr;
  int64_t groups = 0;
  std::vector<HpLaunchArg> args;
  std::unique_ptr<unsigned char[]> values;  // of the arguments

  // Kernels of a vendor.
  const Kernel* vendor = nullptr;
  std::vector<TVMFFIAny> any;
  std::vector<DLTensor> tensors;
  std::unique_ptr<int64_t[]> dimensions;

  // Copies on the device: the two patches are where to and where from.
  size_t bytes = 0;

  RecordedStep(Kind kind, Operator* op) : kind(kind), op(op) {}
  RecordedStep(RecordedStep&&) = default;
  RecordedStep& operator=(RecordedStep&&) = default;
  ~RecordedStep();
};

class Recording {
 public:
  std::vector<RecordedStep> steps;
  std::vector<RecordedMemory> memories;
  struct Count {
    size_t step;  // before which it is counted
    Operator* op;
    Tier tier;
  };
  std::vector<Count> counts;
  std::vector<uint64_t> draws;  // the blocks of each
  size_t arena_bytes = 0;

  // Gives temporaries their places in the arena. `others` are the bytes of given memory that are still in use before
  // each step, one number more than there are steps. Where the arena makes the whole need more than if every temporary
  // were allocated by itself, the largest ones are.
  void plan(const std::vector<size_t>& others);

  using DrawFunction = std::function<PhiloxState(uint64_t blocks)>;
  // One replay, from the first step to the last, in pieces.
  class Replay {
   public:
    Replay(Recording& recording, Stream& stream, void* arena, DrawFunction draw);
    // The address of given, kept and foreign memory, before the first step that uses it.
    void set(size_t memory, void* address) { bases_[memory] = static_cast<char*>(address); }
    char* address(size_t memory) const { return bases_[memory]; }
    // Launches the steps that are left, up to but without `last`.
    void run(size_t last);

   private:
    void launch_step(RecordedStep& step);
    Recording& recording_;
    Stream& stream_;
    const DrawFunction draw_;
    std::vector<char*> bases_;
    std::vector<PhiloxState> drawn_;
    size_t next_ = 0, next_count_ = 0;
  };
};

}  // namespace hp
