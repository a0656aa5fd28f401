// Shared memory of a process group, and waiting between its ranks.
//
// One POSIX shared memory object, unlinked once all ranks have joined, so it never outlives the processes. Its counters
// only grow, so nothing is reset between calls. A waiting process sleeps on its wake counter, a futex that the others
// increment after every step.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collectives/signature.h"
#include "hardpoint/plugin.h"

namespace sim {

constexpr int kMaxRanks = 64;
constexpr size_t kSlotBytes = 1 << 20;           // per collective step; two slots per rank
constexpr size_t kChannelSlotBytes = 128 << 10;  // per part of a message
constexpr uint64_t kChannelSlots = 4;

using RankSet = uint64_t;  // one bit per rank
constexpr RankSet rank_bit(int rank) { return RankSet{1} << rank; }

// One rank's part of the shared memory. Written by that rank only, except for the wake counter.
struct Member {
  alignas(64) std::atomic<uint32_t> wake_counter;  // futex
  std::atomic<uint32_t> sleepers;
  std::atomic<uint32_t> state;
  std::atomic<uint64_t> process;             // random id of the process
  alignas(64) std::atomic<uint64_t> posted;  // number of calls with a posted signature
  Signature signatures[2];                   // ranks are at most one call apart
  // Number of collective steps in which this rank has written its slot, reduced its share, and read the other slots.
  alignas(64) std::atomic<uint64_t> written;
  std::atomic<uint64_t> reduced;
  std::atomic<uint64_t> read_done;
};

// A ring of slots for messages from one rank to another.
struct Channel {
  alignas(64) std::atomic<uint64_t> sent;      // slots so far
  alignas(64) std::atomic<uint64_t> received;  // slots so far
  struct SlotHeader {
    uint64_t number, bytes;  // of the whole message
  } headers[kChannelSlots];
};

// The id of a group, as passed through the contract.
class GroupId {
 public:
  static void make(unsigned char id[HP_GROUP_ID_BYTES]);
  explicit GroupId(const unsigned char id[HP_GROUP_ID_BYTES]);
  // Why this process cannot reach the group; empty if it can.
  std::string unreachable_reason() const;
  std::string object_name() const;

 private:
  struct Content {
    uint64_t magic;
    uint64_t key[2];
    uint64_t shm_device;
    uint32_t user;
    char boot[40];
  };
  static Content local_content();
  Content content_;
};

class Group {
 public:
  // Waits for the other ranks; throws StatusError.
  Group(const GroupId& id, int rank, int size, uint32_t timeout_ms);
  ~Group();
  Group(const Group&) = delete;

  const int rank, size;

  Member& member(int peer) const { return members_[peer]; }
  Member& self() const { return members_[rank]; }
  Channel& channel(int from, int to) const { return channels_[from * size + to]; }
  char* slot(int peer, uint64_t step) const { return slots_ + (peer * 2 + step % 2) * kSlotBytes; }
  char* channel_slot(int from, int to, uint64_t number) const {
    return channel_data_ + ((from * size + to) * kChannelSlots + number % kChannelSlots) * kChannelSlotBytes;
  }
  // Allocates the channel's memory. Call before the first message.
  void reserve_channel(int to);

  RankSet all_ranks() const { return size == kMaxRanks ? ~RankSet{0} : rank_bit(size) - 1; }
  // The ranks in `among` for which `done` is false.
  template <class Done>
  RankSet select_unfinished(RankSet among, Done done) const {
    RankSet missing = 0;
    for (int r = 0; r < size; ++r)
      if ((among & rank_bit(r)) && !done(members_[r])) missing |= rank_bit(r);
    return missing;
  }

  // Waits until `pending` returns no ranks; polls it. Throws StatusError if the group fails meanwhile; fails the group
  // on timeout or if a pending rank has left. Waiting for the own rank has no time limit.
  void wait(const std::string& call, const std::function<RankSet()>& pending);
  void wake(int peer);
  void wake_others();

  // Fails the group for all ranks; the first failure wins. Callable from any thread.
  void fail(HpStatus status, const std::string& what) noexcept;
  bool failed() const;
  // "rank 1", "ranks 0, 2"
  std::string describe(RankSet ranks) const;
  [[noreturn]] void throw_failure() const;

 private:
  struct Header;

  [[noreturn]] void throw_different_sizes() const;
  void map(const std::string& name);
  void join();
  void wait_for_members();
  void unmap();
  bool process_is_gone(int peer) const;
  // Fails the group if a pending rank has left or its process has ended.
  void check_peers(const std::string& call, const std::function<RankSet()>& pending, bool check_processes);

  const uint32_t timeout_ms_;
  int fd_ = -1;
  size_t bytes_ = 0;
  Header* header_ = nullptr;
  Member* members_ = nullptr;
  Channel* channels_ = nullptr;
  char* slots_ = nullptr;
  char* channel_data_ = nullptr;
  std::vector<char> reserved_;  // by rank; sends to one rank run one at a time
};

}  // namespace sim
