// Records this thread's launches, allocations and random draws into a Recording (recording.h).
//
// The core reports launches, copies, allocations and faults, an adapter random draws. An action that cannot be
// replayed, such as a copy to the host, refuses the current segment: replays execute that segment normally.
#pragma once

#include <map>
#include <unordered_map>

#include "core/recording/recording.h"

namespace hp {

struct Block;

class Recorder {
 public:
  // Records this thread's work on `stream` until destroyed.
  explicit Recorder(Stream& stream);
  ~Recorder();
  Recorder(const Recorder&) = delete;

  // Registers memory that the caller passes to the execution and returns its index. Ranges must not overlap.
  size_t add_external(const void* address, size_t bytes);

  // A segment is recorded completely or not at all.
  void begin_segment();
  // Returns "", or why the segment was refused. A refused segment leaves only its memory, as kUnrecorded.
  std::string end_segment();

  // Finds the memory that contains `address`, and the offset in it; false if the address is unknown.
  bool find(const void* address, uint32_t* memory, int64_t* offset) const;
  size_t steps() const { return recording_->steps.size(); }
  RecordedMemory& memory(size_t number) { return recording_->memories[number]; }

  // Increments and returns the counter that orders steps, allocations and frees.
  size_t tick() { return ++ticks_; }

  // Ends the recording and returns it. Memory still allocated becomes kRetained. Call Recording::plan next.
  std::unique_ptr<Recording> finish();

  // ---- Called by the core
  void on_launch(Operator& op, const PortableKernel& kernel, Stream& stream, int64_t groups, const HpLaunchArg* args,
                 uint32_t num_args);
  void on_launch(const Operator& op, const Kernel& kernel, Stream& stream, const TVMFFIAny* args, int32_t num_args);
  void on_copy(void* to, const void* from, size_t bytes, Stream& stream);
  void on_allocate(const Block* block, const void* address, size_t bytes);
  void on_free(const Block* block);
  void on_fault_arm(const void* fault_record);
  void on_count(Operator& op, Tier tier);
  // Arguments `argument` and `argument` + 1 of the next launch are the generator's seed and offset.
  void on_random_arguments(uint32_t argument, PhiloxState state);
  // The launch was declined: drop its random-number arguments.
  void on_decline() { draws_.drop_arguments(); }
  // Marks the segment as not replayable. `why` completes a sentence about the segment: "it copies to the host".
  void refuse(const std::string& why);

  // ---- Called by an adapter
  // `blocks` blocks were drawn from the device's default generator, which was at `state`.
  void on_draw(PhiloxState state, uint64_t blocks);

  // Active while a vendor kernel runs: its allocations are not recorded, because each replay makes them again.
  class PauseScope {
   public:
    explicit PauseScope(Recorder* recorder) : recorder_(recorder) {
      if (recorder_ != nullptr) ++recorder_->paused_;
    }
    ~PauseScope() {
      if (recorder_ != nullptr) --recorder_->paused_;
    }
    PauseScope(const PauseScope&) = delete;

   private:
    Recorder* const recorder_;
  };

 private:
  friend Recorder* active_recorder();
  // Removes memory that overlaps the range: it was freed, and the range is allocated again.
  void forget(const char* begin, const char* end);
  bool patch(RecordedStep& step, void** address, const void* value);
  void add_step(RecordedStep step);

  Stream& stream_;
  Recorder* const previous_;
  int paused_ = 0;
  size_t ticks_ = 0;
  std::unique_ptr<Recording> recording_ = std::make_unique<Recording>();
  std::map<const char*, size_t> live_;                    // base address -> memory index
  std::unordered_map<const Block*, const char*> blocks_;  // allocated while recording -> base address
  const void* fault_record_ = nullptr;

  // The current segment.
  RandomDraws draws_;
  std::string refused_;
  size_t first_step_ = 0, first_count_ = 0, first_draw_ = 0, first_memory_ = 0;
};

// The recorder of this thread, or null if there is none or it is paused. Costs one relaxed load if no thread records.
Recorder* active_recorder();
inline Recorder* recorder() { return __builtin_expect(recording(), 0) ? active_recorder() : nullptr; }

}  // namespace hp
