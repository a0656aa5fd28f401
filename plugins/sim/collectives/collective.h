// One collective, run in steps through the slots of the group's shared memory.
//
// In a step, each rank writes data for the others to its slot, then reads theirs. A large reduction is split: each rank
// reduces its share of all slots and the others copy the result, so all ranks get the same bits. Each rank has two
// slots, to write one while the others read the other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "collectives/group.h"

namespace sim {

// State shared by the collectives of a communicator. They run one at a time, in the order of their numbers.
struct CollectiveProgress {
  std::atomic<uint64_t> finished{0};
  uint64_t steps = 0;  // total of the finished collectives; owned by the running one
};

class Collective {
 public:
  Collective(Group& group, CollectiveProgress& progress, const Signature& signature, char* dst, const char* src);

  // Throws StatusError. Calls `poll` periodically while waiting.
  void run(const std::function<void()>& poll);
  const std::string& label() const { return label_; }

 private:
  // [first, first + size) in units, of the whole data or of each rank's part.
  struct Range {
    size_t first, size;
  };

  // Publishes the signature and the first step.
  void post();
  void check_signatures();
  void wait(RankSet among, std::atomic<uint64_t> Member::* counter, uint64_t target);
  void publish(std::atomic<uint64_t> Member::* counter, uint64_t value);

  Range range(uint64_t step) const;
  // The share of rank `of` in the reduction of a range.
  Range share(const Range& range, int of) const;
  void write_step(uint64_t step);
  void write_slot(const Range& range, char* slot) const;
  void reduce_share(const Range& range, uint64_t number) const;
  void read_slots(const Range& range, uint64_t number) const;
  void reduce(const Range& range, uint64_t number, size_t slot_offset, const char* own, char* out, char* copy) const;

  Group& group_;
  CollectiveProgress& progress_;
  const Signature signature_;
  const std::string label_;
  char* const dst_;
  const char* const src_;
  const size_t unit_;  // bytes per unit of size: an element for reductions, else 1
  // Whether each rank reduces only its share and copies the others. For small data a second wait costs more than
  // reducing everything on every rank, in the same order.
  const bool split_;
  size_t part_ = 0, step_size_ = 0;  // units per rank in a slot, and units per step
  uint64_t steps_ = 0;
  uint64_t first_step_ = 0;
  const std::function<void()>* poll_ = nullptr;
};

}  // namespace sim
