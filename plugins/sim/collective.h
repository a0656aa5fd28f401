// One collective, run step by step through the slots of the group's memory.
//
// In a step each rank puts what the others need into its slot and takes what it needs from theirs. A reduction is
// shared out: each rank combines its share of all slots, and the others take the result, so that all have the same
// bits. A rank has two slots, so that it fills one while the others read the other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "group_memory.h"

namespace sim {

// What the collectives of one process and group have in common. They run one at a time, in the order of their numbers.
struct CollectiveOrder {
  std::atomic<uint64_t> finished{0};
  uint64_t steps = 0;  // of all that are finished; belongs to the one that runs
};

class Collective {
 public:
  Collective(Group& group, CollectiveOrder& order, const Signature& signature, char* dst, const char* src);

  // Throws Failure. `meanwhile` is called now and then while it waits.
  void run(const std::function<void()>& meanwhile);
  const std::string& label() const { return label_; }

 private:
  // Elements or bytes [first, first + size) of the whole, or of each rank's part.
  struct Range {
    size_t first, size;
  };

  // Says what is called, and offers the first step.
  void post();
  void compare();
  void wait(Ranks among, std::atomic<uint64_t> Member::* counter, uint64_t target);
  void publish(std::atomic<uint64_t> Member::* counter, uint64_t value);

  Range range(uint64_t step) const;
  // One rank's share of a reduction's range.
  Range share(const Range& range, int of) const;
  void offer(uint64_t step);
  void put(const Range& range, char* slot) const;
  void combine(const Range& range, uint64_t number) const;
  void take(const Range& range, uint64_t number) const;
  void reduce(const Range& range, uint64_t number, size_t slot_offset, const char* own, char* out, char* copy) const;

  Group& group_;
  CollectiveOrder& order_;
  const Signature signature_;
  const std::string label_;
  char* const dst_;
  const char* const src_;
  const size_t unit_;  // bytes of what sizes are counted in
  // Each rank combines its share, which the others take. Not worth a second wait for little data: then every rank
  // combines all of it, in the same order.
  const bool shared_out_;
  size_t part_ = 0, step_size_ = 0;  // units that a slot has for each rank, and those of a step
  uint64_t steps_ = 0;
  uint64_t first_step_ = 0;
  const std::function<void()>* meanwhile_ = nullptr;
};

}  // namespace sim
