#include "collectives/transfer.h"

#include <algorithm>
#include <cstring>

#include "host.h"

namespace sim {

namespace {

// Slots of a message. An empty one also takes a slot.
uint64_t num_slots(size_t bytes) { return std::max<uint64_t>((bytes + kChannelSlotBytes - 1) / kChannelSlotBytes, 1); }

}  // namespace

Transfer::Transfer(Group& group, TransferProgress& progress, bool sends, int peer, uint64_t number, char* data,
                   size_t bytes)
    : group_(&group),
      progress_(&progress[static_cast<size_t>(peer)]),
      sends_(sends),
      peer_(peer),
      number_(number),
      data_(data),
      bytes_(bytes),
      label_((sends ? "send #" : "receive #") + std::to_string(number) + (sends ? " to rank " : " from rank ") +
             std::to_string(peer)),
      slots_left_(num_slots(bytes)) {}

bool Transfer::is_next() const { return progress_->load(std::memory_order_acquire) + 1 == number_; }

bool Transfer::advance() {
  if (finished_ || !is_next()) return false;
  return sends_ ? fill(group_->channel(group_->rank, peer_)) : drain(group_->channel(peer_, group_->rank));
}

bool Transfer::fill(Channel& channel) {
  const uint64_t sent = channel.sent.load(std::memory_order_relaxed);
  const uint64_t received = channel.received.load(std::memory_order_acquire);
  if (slots_left_ == 0) {
    // A send finishes when the peer has received everything, so both sides report a mismatch.
    if (received != sent) return false;
    finish();
    return true;
  }
  if (sent - received == kChannelSlots) return false;
  group_->reserve_channel(peer_);
  const size_t offset = (num_slots(bytes_) - slots_left_) * kChannelSlotBytes;
  channel.headers[sent % kChannelSlots] = {number_, bytes_};
  if (bytes_ > 0)
    memcpy(group_->channel_slot(group_->rank, peer_, sent), data_ + offset,
           std::min(kChannelSlotBytes, bytes_ - offset));
  channel.sent.store(sent + 1, std::memory_order_release);
  group_->wake(peer_);
  --slots_left_;
  return true;
}

bool Transfer::drain(Channel& channel) {
  const uint64_t received = channel.received.load(std::memory_order_relaxed);
  if (channel.sent.load(std::memory_order_acquire) == received) return false;
  const Channel::SlotHeader head = channel.headers[received % kChannelSlots];
  const std::string peer = "rank " + std::to_string(peer_), self = "rank " + std::to_string(group_->rank);
  if (head.number != number_) {
    group_->fail(HP_ERROR, label_ + ": " + peer + " sends its message #" + std::to_string(head.number));
    group_->throw_failure();
  }
  if (head.bytes != bytes_) {
    group_->fail(HP_INVALID_ARGUMENT, "message #" + std::to_string(number_) + " from " + peer + " to " + self + ": " +
                                          peer + " sends " + std::to_string(head.bytes) + " bytes, " + self +
                                          " receives " + std::to_string(bytes_));
    group_->throw_failure();
  }
  const size_t offset = (num_slots(bytes_) - slots_left_) * kChannelSlotBytes;
  if (bytes_ > 0)
    memcpy(data_ + offset, group_->channel_slot(peer_, group_->rank, received),
           std::min(kChannelSlotBytes, bytes_ - offset));
  channel.received.store(received + 1, std::memory_order_release);
  group_->wake(peer_);
  if (--slots_left_ == 0) finish();
  return true;
}

void Transfer::finish() {
  finished_ = true;
  progress_->store(number_, std::memory_order_release);
  group_->wake(group_->rank);  // for the next transfer, maybe on another stream
}

void advance_all(std::vector<Transfer>& transfers) {
  for (bool advanced = true; advanced;) {
    advanced = false;
    for (Transfer& transfer : transfers) advanced |= transfer.advance();
  }
}

void run_transfers(Group& group, std::vector<Transfer>& transfers) {
  for (;;) {
    const auto first =
        std::find_if(transfers.begin(), transfers.end(), [](const Transfer& t) { return !t.finished(); });
    if (first == transfers.end()) return;
    // Progress restarts the wait and its time limit.
    group.wait(first->label(), [&transfers] {
      RankSet missing = 0;
      for (Transfer& transfer : transfers) {
        if (transfer.advance()) return RankSet{0};
        if (!transfer.finished()) missing |= transfer.missing();
      }
      return missing;
    });
  }
}

}  // namespace sim
