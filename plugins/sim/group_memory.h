// The memory that the processes of one group share, and how they wait for one another.
//
// One POSIX shared memory object, which loses its name as soon as everybody has joined, so that nothing stays behind
// whatever becomes of the processes. All counters in it only ever grow: nothing needs to be reset between calls. A
// process that waits sleeps on its bell, which the others ring whenever they did something that it may wait for.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hardpoint/plugin.h"
#include "signature.h"

namespace sim {

constexpr int kMaxRanks = 64;
constexpr size_t kSlotBytes = 1 << 20;           // of a collective's step, two for each rank
constexpr size_t kChannelSlotBytes = 128 << 10;  // of a message
constexpr uint64_t kChannelSlots = 4;

using Ranks = uint64_t;  // a set of ranks, a bit each
constexpr Ranks only(int rank) { return Ranks{1} << rank; }

// One rank's part of the shared memory; written by that rank, except for the bell.
struct Member {
  alignas(64) std::atomic<uint32_t> bell;  // a futex
  std::atomic<uint32_t> sleepers;
  std::atomic<uint32_t> state;
  std::atomic<uint64_t> process;             // a random number that is the process's own
  alignas(64) std::atomic<uint64_t> posted;  // calls whose signature is there
  Signature signatures[2];                   // nobody is more than one call ahead
  // Steps of collectives since the beginning: what a rank put into its slot, what it added to it after the others had
  // put theirs, and what it took from the slots of the others.
  alignas(64) std::atomic<uint64_t> offered;
  std::atomic<uint64_t> combined;
  std::atomic<uint64_t> taken;
};

// Messages from one rank to another: a ring of slots.
struct Channel {
  alignas(64) std::atomic<uint64_t> sent;      // slots since the beginning
  alignas(64) std::atomic<uint64_t> received;  // likewise
  struct Head {
    uint64_t number, bytes;  // of the whole message
  } heads[kChannelSlots];
};

// The name of a group, as it travels in the contract's id.
class GroupId {
 public:
  static void make(unsigned char id[HP_GROUP_ID_BYTES]);
  explicit GroupId(const unsigned char id[HP_GROUP_ID_BYTES]);
  // Why this process does not reach the group; empty when it does.
  std::string obstacle() const;
  std::string object_name() const;

 private:
  struct Content {
    uint64_t magic;
    uint64_t key[2];
    uint64_t shm_device;
    uint32_t user;
    char boot[40];
  };
  static Content here();
  Content content_;
};

class Group {
 public:
  // Waits for the others; throws Failure.
  Group(const GroupId& id, int rank, int size, uint32_t timeout_ms);
  ~Group();
  Group(const Group&) = delete;

  const int rank, size;

  Member& member(int of) const { return members_[of]; }
  Member& self() const { return members_[rank]; }
  Channel& channel(int from, int to) const { return channels_[from * size + to]; }
  char* slot(int of, uint64_t step) const { return slots_ + (of * 2 + step % 2) * kSlotBytes; }
  char* channel_slot(int from, int to, uint64_t number) const {
    return channel_data_ + ((from * size + to) * kChannelSlots + number % kChannelSlots) * kChannelSlotBytes;
  }
  // Before the first message: slots have no memory until then.
  void reserve_channel(int to);

  Ranks everyone() const { return size == kMaxRanks ? ~Ranks{0} : only(size) - 1; }
  // Of `among`, those for whom `done` is false.
  template <class Done>
  Ranks unfinished(Ranks among, Done done) const {
    Ranks missing = 0;
    for (int r = 0; r < size; ++r)
      if ((among & only(r)) && !done(members_[r])) missing |= only(r);
    return missing;
  }

  // Calls `pending`, the ranks that are still waited for, again and again until there are none. Throws Failure when the
  // group has failed meanwhile, and makes it fail when time runs out or one of those ranks is gone. A process does not
  // wait for its own rank in vain: that has no limit.
  void wait(const std::string& call, const std::function<Ranks()>& pending);
  void ring(int whose);
  void ring_others();

  // The first failure is everybody's. From any thread.
  void fail(HpStatus status, const std::string& what) noexcept;
  bool failed() const;
  // "rank 1", "ranks 0, 2"
  std::string names(Ranks ranks) const;
  [[noreturn]] void throw_failure() const;

 private:
  struct Header;

  [[noreturn]] void throw_different_sizes() const;
  void map(const std::string& name);
  void enter();
  void wait_for_all();
  void unmap();
  bool process_is_gone(int of) const;
  // Fails for the ranks that will never come.
  void look_after(const std::string& call, const std::function<Ranks()>& pending, bool at_processes);

  const uint32_t timeout_ms_;
  int fd_ = -1;
  size_t bytes_ = 0;
  Header* header_ = nullptr;
  Member* members_ = nullptr;
  Channel* channels_ = nullptr;
  char* slots_ = nullptr;
  char* channel_data_ = nullptr;
  std::vector<char> reserved_;  // by rank; the sends to one rank come one after another
};

}  // namespace sim
