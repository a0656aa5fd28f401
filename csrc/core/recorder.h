// Writes down what this thread launches, allocates and draws while it executes something: see recording.h.
//
// The core's own functions tell the recorder (launches, copies, the allocator, faults); an adapter tells it where
// random numbers come from. What cannot be launched again as it was, such as a copy to the host, is refused: the part
// that it happened in is executed as usual in each replay.
#pragma once

#include <map>
#include <unordered_map>

#include "recording.h"

namespace hp {

struct Block;

class Recorder {
 public:
  // Records work of this thread on `stream`, until it is destroyed.
  explicit Recorder(Stream& stream);
  ~Recorder();
  Recorder(const Recorder&) = delete;

  // Memory that the execution is given; its number. It must not overlap other memory that was given.
  size_t given(const void* address, size_t bytes);

  // A part is recorded as a whole or not at all.
  void begin_part();
  // Empty, or why it was refused: then nothing of it is left but the memory that it made.
  std::string end_part();

  // The number of the memory that holds the address and where; false if nobody knows it.
  bool find(const void* address, uint32_t* memory, int64_t* offset) const;
  size_t steps() const { return recording_->steps.size(); }
  RecordedMemory& memory(size_t number) { return recording_->memories[number]; }

  // A number that grows with each call and with each allocation: the order in which things happened.
  size_t tick() { return ++ticks_; }

  // What is still allocated becomes kept memory; call Recording::plan next. The recorder is of no use afterwards.
  std::unique_ptr<Recording> finish();

  // ---- Told by the core
  void launched(Operator& op, const PortableKernel& kernel, Stream& stream, int64_t groups, const HpLaunchArg* args,
                uint32_t num_args);
  void launched(const Operator& op, const Kernel& kernel, Stream& stream, const TVMFFIAny* args, int32_t num_args);
  void copied(void* to, const void* from, size_t bytes, Stream& stream);
  void allocated(const Block* block, const void* address, size_t bytes);
  void freed(const Block* block);
  void armed(const void* fault_words);
  void counted(Operator& op, Tier tier);
  // The next launch has the generator's seed and offset at `argument` and the one after it.
  void random_arguments(uint32_t argument, PhiloxState at);
  // It did not take place.
  void declined() { random_arguments_.clear(); }
  void refuse(const std::string& why);

  // ---- Told by an adapter
  // Blocks were taken from the device's own generator.
  void drew(PhiloxState at, uint64_t blocks);

  // While a vendor's kernel runs: what it allocates is its own affair, at each replay again.
  class Paused {
   public:
    explicit Paused(Recorder* recorder) : recorder_(recorder) {
      if (recorder_ != nullptr) ++recorder_->paused_;
    }
    ~Paused() {
      if (recorder_ != nullptr) --recorder_->paused_;
    }
    Paused(const Paused&) = delete;

   private:
    Recorder* const recorder_;
  };

 private:
  friend Recorder* active_recorder();
  bool patch(RecordedStep& step, void** address, const void* value);
  // Notes where a step takes its random numbers from; `word` gives the place of an argument.
  void take_draws(RecordedStep& step, const std::function<int64_t*(uint32_t)>& word);

  Stream& stream_;
  Recorder* const previous_;
  int paused_ = 0;
  size_t ticks_ = 0;
  std::unique_ptr<Recording> recording_ = std::make_unique<Recording>();
  std::map<const char*, size_t> live_;                    // by address
  std::unordered_map<const Block*, const char*> blocks_;  // what was allocated
  const void* fault_words_ = nullptr;

  // The part.
  struct Drawn {
    PhiloxState at;
    bool used;
  };
  std::vector<Drawn> drawn_;
  std::vector<std::pair<uint32_t, PhiloxState>> random_arguments_;
  std::string refused_;
  size_t first_step_ = 0, first_count_ = 0, first_draw_ = 0, first_memory_ = 0;
};

// The recorder of this thread, unless it is paused; null at the cost of one relaxed load where no thread records.
Recorder* active_recorder();
inline Recorder* recorder() { return __builtin_expect(recording(), 0) ? active_recorder() : nullptr; }

}  // namespace hp
