// One send or receive, through the channel of its pair of ranks. Any number of them progress together.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "group_memory.h"

namespace sim {

// Of one process and direction, by peer: how many are finished. They run one at a time, in the order of their numbers.
using TransferOrder = std::vector<std::atomic<uint64_t>>;

class Transfer {
 public:
  // `number` counts those of the pair and direction, from 1.
  Transfer(Group& group, TransferOrder& order, bool sends, int peer, uint64_t number, char* data, size_t bytes);

  bool finished() const { return finished_; }
  // Does what can be done now; false when that is nothing. Throws Failure.
  bool advance();
  // Whom it waits for.
  Ranks missing() const { return only(its_turn() ? peer_ : group_->rank); }
  const std::string& label() const { return label_; }

 private:
  bool its_turn() const;
  bool fill(Channel& channel);
  bool drain(Channel& channel);
  void finish();

  Group* group_;
  std::atomic<uint64_t>* order_;
  bool sends_, finished_ = false;
  int peer_;
  uint64_t number_;
  char* data_;
  size_t bytes_;
  std::string label_;    // "send #3 to rank 1"
  uint64_t slots_left_;  // to be filled, or drained
};

// Finishes them all; throws Failure.
void run_transfers(Group& group, std::vector<Transfer>& transfers);
// Does what can be done now.
void advance_all(std::vector<Transfer>& transfers);

}  // namespace sim
