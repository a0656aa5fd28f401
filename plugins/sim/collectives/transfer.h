// One send or receive, through the channel of a pair of ranks. Any number of them make progress concurrently.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/group.h"

namespace sim {

// Number of finished sends or receives per peer. Transfers of a pair run one at a time, in the order of their numbers.
using TransferProgress = std::vector<std::atomic<uint64_t>>;

class Transfer {
 public:
  // `number` counts the transfers of this pair and direction, from 1.
  Transfer(Group& group, TransferProgress& progress, bool sends, int peer, uint64_t number, char* data, size_t bytes);

  bool finished() const { return finished_; }
  // Makes progress without waiting; returns false if there was none. Throws StatusError.
  bool advance();
  // The rank it waits for.
  RankSet missing() const { return rank_bit(is_next() ? peer_ : group_->rank); }
  const std::string& label() const { return label_; }

 private:
  bool is_next() const;
  bool fill(Channel& channel);
  bool drain(Channel& channel);
  void finish();

  Group* group_;
  std::atomic<uint64_t>* progress_;
  bool sends_, finished_ = false;
  int peer_;
  uint64_t number_;
  char* data_;
  size_t bytes_;
  std::string label_;    // "send #3 to rank 1"
  uint64_t slots_left_;  // left to fill or drain
};

// Runs all transfers to completion; throws StatusError.
void run_transfers(Group& group, std::vector<Transfer>& transfers);
// Makes progress without waiting.
void advance_all(std::vector<Transfer>& transfers);

}  // namespace sim
