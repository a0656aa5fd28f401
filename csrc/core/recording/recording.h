// A recorded sequence of launches, replayed with other memory and without dispatch, shape inference or allocation.
// Built by a Recorder (recorder.h), used by graph replay.
#pragma once

#include <dlpack/dlpack.h>
#include <tvm/ffi/c_api.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/dispatch/operator.h"
#include "core/dispatch/portable_kernel.h"
#include "core/recording/memory_plan.h"
#include "core/runtime/philox.h"
#include "core/runtime/runtime.h"

namespace hp {

// Memory used by steps, which refer to it by index.
struct RecordedMemory : PlannedBuffer {
  enum Kind {
    kFault,       // index 0: the stream's fault record
    kExternal,    // owned by the caller, allocated before the execution
    kTemporary,   // allocated and freed by the execution: placed in the arena
    kStandalone,  // the same, but allocated separately because that lowers the peak
    kRetained,    // allocated by the execution and still allocated at its end
    kUnrecorded,  // allocated by a segment that could not be recorded
  } kind;
  size_t allocated_tick = 0, freed_tick = 0;  // see Recorder::tick
};

// One launch or copy. Each replay of a Recording patches addresses into its arguments; a DeviceGraph keeps them.
struct RecordedStep {
  enum Kind { kPortable, kVendor, kCopy, kFill, kGraph } kind;
  Operator* op;
  size_t tick = 0;  // see Recorder::tick

  struct Patch {
    void** address;  // argument to overwrite; null for a copy
    uint32_t memory;
    int64_t offset;
  };
  std::vector<Patch> patches;
  // Seed and offset arguments to overwrite. `draw` indexes Recording::draws; the kernel starts `delta` blocks into it.
  struct Draw {
    size_t draw;
    uint64_t delta;
    int64_t *seed, *offset;
  };
  std::vector<Draw> draws;

  // Portable kernels.
  PortableKernel portable;
  int64_t groups = 0;
  std::vector<HpLaunchArg> args;
  std::unique_ptr<unsigned char[]> values;  // storage that `args` points into

  // Vendor kernels.
  const Kernel* vendor = nullptr;
  std::vector<TVMFFIAny> any;
  std::vector<DLTensor> tensors;
  std::unique_ptr<int64_t[]> dimensions;

  // Copies on the device. In a Recording, patches[0] is the destination and patches[1] the source.
  size_t bytes = 0;
  void* to = nullptr;
  const void* from = nullptr;

  // Fills, in a DeviceGraph only: `bytes` bytes at `to`.
  uint8_t value = 0;

  // Work that the plug-in captured.
  HpGraph graph = nullptr;

  // Copies the launch and its arguments.
  static RecordedStep of(Operator& op, const PortableKernel& kernel, int64_t groups, const HpLaunchArg* args,
                         uint32_t num_args);
  // The same for a vendor kernel; null if an argument is valid only during the call.
  static std::optional<RecordedStep> of(const Operator& op, const Kernel& kernel, const TVMFFIAny* args,
                                        int32_t num_args);
  // The addresses of argument k, which must be an integer.
  int64_t* integer(uint32_t k) {
    return kind == kPortable ? static_cast<int64_t*>(const_cast<void*>(args[k].value)) : &any[k].v_int64;
  }

  RecordedStep(Kind kind, Operator* op) : kind(kind), op(op) {}
  RecordedStep(RecordedStep&&) = default;
  RecordedStep& operator=(RecordedStep&&) = default;
  ~RecordedStep();
};

// Random draws of the default generator while launches are recorded, and the launches that use them.
class RandomDraws {
 public:
  void draw(PhiloxState state, uint64_t blocks) { drawn_.push_back({state, blocks, blocks == 0}); }
  // Arguments `argument` and `argument` + 1 of the next launch are a seed and an offset.
  void add_arguments(uint32_t argument, PhiloxState state) { arguments_.emplace_back(argument, state); }
  bool has_arguments() const { return !arguments_.empty(); }
  void drop_arguments() { arguments_.clear(); }
  // Binds the arguments of the launch to their draws; `first` is the index of the first one. False if an argument does
  // not come from a draw.
  bool bind(RecordedStep& step, size_t first);
  bool all_used() const;
  void clear() { drawn_.clear(), arguments_.clear(); }

 private:
  struct Drawn {
    PhiloxState state;
    uint64_t blocks;
    bool used;
  };
  std::vector<Drawn> drawn_;
  std::vector<std::pair<uint32_t, PhiloxState>> arguments_;
};

class Recording {
 public:
  std::vector<RecordedStep> steps;
  std::vector<RecordedMemory> memories;
  struct Count {
    size_t step;  // counted before this step
    Operator* op;
    Tier tier;
  };
  std::vector<Count> counts;
  std::vector<uint64_t> draws;  // number of random blocks in each draw
  size_t arena_bytes = 0;

  // Assigns arena offsets to temporaries. `external_bytes[s]` is the external memory in use before step s; its size is
  // steps + 1. If the arena raises the peak above that of separate allocations, the largest temporaries become
  // kStandalone.
  void plan(const std::vector<size_t>& external_bytes);

  using DrawFunction = std::function<PhiloxState(uint64_t blocks)>;
  // One replay of all steps in order, in one or more run() calls.
  class Replay {
   public:
    Replay(Recording& recording, Stream& stream, void* arena, DrawFunction draw);
    // Sets the address of memory outside the arena. Call before the first step that uses it.
    void set(size_t memory, void* address) { bases_[memory] = static_cast<char*>(address); }
    char* address(size_t memory) const { return bases_[memory]; }
    // Launches the remaining steps before `last`.
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
