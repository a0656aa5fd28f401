#include "collectives/group.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>
#include <thread>

#include "config.h"
#include "host.h"
#include "runtime/threads.h"

namespace sim {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint64_t kMagic = 0x31504f52'474d4953;  // "SIMGROP1"
constexpr milliseconds kPeerCheckInterval{200};   // how often a waiting process checks that its peers still run

enum : uint32_t { kAbsent, kJoined, kLeft };
enum : uint32_t { kHealthy, kFailing, kFailed };

constexpr size_t whole_pages(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

// A random id of this process, to detect several ranks in one process, which file locks cannot tell apart.
uint64_t process_token() {
  static const uint64_t token = [] {
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random) throw StatusError(HP_ERROR, "getrandom");
    return random | 1;  // 0 means none
  }();
  return token;
}

// Allocates part of the object, so that a full /dev/shm is an error here instead of SIGBUS on first access.
bool reserve(int fd, off_t first, size_t bytes) {
  int result;
  do result = fallocate(fd, 0, first, static_cast<off_t>(bytes));
  while (result != 0 && errno == EINTR);
  return result == 0 || errno == EOPNOTSUPP;
}

std::string last_error(const char* what) { return std::string(what) + ": " + strerror(errno); }

}  // namespace

// --- group id --------------------------------------------------------------------------------------------------------

GroupId::Content GroupId::local_content() {
  Content content = {};
  content.magic = kMagic;
  struct stat status;
  // Containers on one machine each have their own /dev/shm.
  if (stat("/dev/shm", &status) != 0) throw StatusError(HP_NOT_SUPPORTED, last_error("/dev/shm"));
  content.shm_device = status.st_dev;
  content.user = geteuid();
  const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  const ssize_t length = fd < 0 ? -1 : read(fd, content.boot, sizeof content.boot - 1);
  if (fd >= 0) close(fd);
  if (length < 0) throw StatusError(HP_NOT_SUPPORTED, last_error("/proc/sys/kernel/random/boot_id"));
  return content;
}

void GroupId::make(unsigned char id[HP_GROUP_ID_BYTES]) {
  static_assert(sizeof(Content) <= HP_GROUP_ID_BYTES, "the id must fit");
  Content content = local_content();
  if (getrandom(content.key, sizeof content.key, 0) != sizeof content.key)
    throw StatusError(HP_ERROR, last_error("getrandom"));
  memset(id, 0, HP_GROUP_ID_BYTES);
  memcpy(id, &content, sizeof content);
}

GroupId::GroupId(const unsigned char id[HP_GROUP_ID_BYTES]) {
  memcpy(&content_, id, sizeof content_);
  if (content_.magic != kMagic) throw StatusError(HP_INVALID_ARGUMENT, "not a sim group id");
}

std::string GroupId::unreachable_reason() const {
  const Content mine = local_content();
  if (memcmp(mine.boot, content_.boot, sizeof mine.boot) != 0) return "the group is on another machine";
  if (mine.shm_device != content_.shm_device) return "the group uses another /dev/shm (another container?)";
  if (mine.user != content_.user) return "the group belongs to another user";
  return "";
}

std::string GroupId::object_name() const {
  char name[64];
  snprintf(name, sizeof name, "/hardpoint-sim-%016llx%016llx", static_cast<unsigned long long>(content_.key[0]),
           static_cast<unsigned long long>(content_.key[1]));
  return name;
}

// --- join and leave --------------------------------------------------------------------------------------------------

struct Group::Header {
  std::atomic<uint32_t> size;  // group size, set by the first rank
  std::atomic<uint32_t> failure;
  HpStatus status;
  char message[1000];
};

Group::Group(const GroupId& id, int rank, int size, uint32_t timeout_ms)
    : rank(rank), size(size), timeout_ms_(timeout_ms), reserved_(static_cast<size_t>(size)) {
  const std::string name = id.object_name();
  try {
    map(name);
    join();
    wait_for_members();
  } catch (...) {
    shm_unlink(name.c_str());
    unmap();
    throw;
  }
  shm_unlink(name.c_str());
}

Group::~Group() {
  self().state.store(kLeft, std::memory_order_release);
  wake_others();
  unmap();
}

void Group::throw_different_sizes() const {
  throw StatusError(HP_INVALID_ARGUMENT, "the ranks disagree on the group size; rank " + std::to_string(rank) +
                                             " gives " + std::to_string(size));
}

void Group::map(const std::string& name) {
  const size_t n = static_cast<size_t>(size), pairs = n * n;
  const size_t members = whole_pages(sizeof(Header)), channels = members + whole_pages(n * sizeof(Member));
  const size_t slots = channels + whole_pages(pairs * sizeof(Channel)), channel_data = slots + n * 2 * kSlotBytes;
  bytes_ = channel_data + pairs * kChannelSlots * kChannelSlotBytes;

  fd_ = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (fd_ < 0) throw StatusError(HP_ERROR, last_error("shm_open"));
  struct stat status;
  if (fstat(fd_, &status) != 0) throw StatusError(HP_ERROR, last_error("fstat"));
  if (status.st_size != 0 && static_cast<size_t>(status.st_size) != bytes_) throw_different_sizes();
  if (ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) throw StatusError(HP_ERROR, last_error("ftruncate"));
  if (!reserve(fd_, 0, channel_data))
    throw StatusError(HP_OUT_OF_MEMORY, last_error("/dev/shm") + "; a group of " + std::to_string(size) + " needs " +
                                            std::to_string(channel_data >> 10) + " KiB there, and " +
                                            std::to_string(kChannelSlots * kChannelSlotBytes >> 10) +
                                            " KiB more per pair of ranks that exchange messages");
  void* const mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
  if (mapped == MAP_FAILED) throw StatusError(HP_ERROR, last_error("mmap"));
  char* const base = static_cast<char*>(mapped);
  // A new object is zero-filled, which is the initial state of everything below.
  header_ = reinterpret_cast<Header*>(base);
  members_ = reinterpret_cast<Member*>(base + members);
  channels_ = reinterpret_cast<Channel*>(base + channels);
  slots_ = base + slots;
  channel_data_ = base + channel_data;
  uint32_t none = 0;
  if (!header_->size.compare_exchange_strong(none, static_cast<uint32_t>(size)) && none != static_cast<uint32_t>(size))
    throw_different_sizes();
}

void Group::join() {
  // Each rank locks its byte of the object. The kernel releases the lock when the process ends; children do not inherit
  // it.
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  const bool locked = fcntl(fd_, F_SETLK, &lock) == 0;
  if (locked) {
    self().process.store(process_token());
    for (int r = 0; r < size; ++r) {
      if (r == rank || members_[r].process.load() != process_token()) continue;
      fail(HP_NOT_SUPPORTED, "ranks " + std::to_string(std::min(r, rank)) + " and " +
                                 std::to_string(std::max(r, rank)) +
                                 " are in one process; sim needs one process per rank");
      throw_failure();
    }
  }
  uint32_t absent = kAbsent;
  // The lock does not stop the same process from joining twice; the state does.
  if (!locked || !self().state.compare_exchange_strong(absent, kJoined))
    throw StatusError(HP_INVALID_ARGUMENT, "rank " + std::to_string(rank) + " has already joined the group");
  wake_others();
}

void Group::wait_for_members() {
  wait("joining", [this] {
    return select_unfinished(all_ranks(),
                             [](const Member& m) { return m.state.load(std::memory_order_acquire) != kAbsent; });
  });
}

void Group::unmap() {
  if (header_ != nullptr) munmap(header_, bytes_);
  if (fd_ >= 0) close(fd_);
}

void Group::reserve_channel(int to) {
  if (reserved_[static_cast<size_t>(to)]) return;
  const off_t first = channel_slot(rank, to, 0) - reinterpret_cast<char*>(header_);
  if (!reserve(fd_, first, kChannelSlots * kChannelSlotBytes)) {
    fail(HP_OUT_OF_MEMORY, last_error("/dev/shm") + "; messages from rank " + std::to_string(rank) + " to rank " +
                               std::to_string(to) + " need " + std::to_string(kChannelSlots * kChannelSlotBytes >> 10) +
                               " KiB there");
    throw_failure();
  }
  reserved_[static_cast<size_t>(to)] = 1;
}

// --- waiting ---------------------------------------------------------------------------------------------------------

void Group::wake(int peer) {
  Member& other = members_[peer];
  other.wake_counter.fetch_add(1);
  if (other.sleepers.load() != 0) syscall(SYS_futex, &other.wake_counter, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

void Group::wake_others() {
  for (int r = 0; r < size; ++r)
    if (r != rank) wake(r);
}

void Group::wait(const std::string& call, const std::function<RankSet()>& pending) {
  // More spinning ranks than cores only slow each other down.
  const std::chrono::microseconds spin(size <= config.cores ? 20 : 1);
  // A satisfied wait succeeds even if the group has failed since.
  if (pending() == 0 || spin_until(spin, [&] { return pending() == 0; })) return;
  Member& me = self();
  struct Sleeper {
    std::atomic<uint32_t>& count;
    ~Sleeper() { count.fetch_sub(1); }
  } sleeper{me.sleepers};
  me.sleepers.fetch_add(1);

  const Clock::time_point start = Clock::now(), end = start + milliseconds(timeout_ms_);
  Clock::time_point next_check = start + kPeerCheckInterval;
  for (;;) {
    const uint32_t seen = me.wake_counter.load();
    const RankSet missing = pending();
    if (missing == 0) return;
    if (failed()) throw_failure();
    Clock::time_point now = Clock::now();
    const bool limited = timeout_ms_ != 0 && (missing & ~rank_bit(rank)) != 0;
    check_peers(call, pending, now >= next_check);
    if (now >= next_check) next_check = now + kPeerCheckInterval;
    if (limited && now >= end) {
      fail(HP_TIMEOUT, call + ": rank " + std::to_string(rank) + " has waited " + std::to_string(timeout_ms_) +
                           " ms for " + describe(missing & ~rank_bit(rank)));
      throw_failure();
    }
    const auto left = std::max(limited ? std::min(next_check, end) - now : next_check - now, Clock::duration(1));
    const long ns = static_cast<long>(std::chrono::nanoseconds(left).count());
    const timespec limit = {ns / 1000000000, ns % 1000000000};
    syscall(SYS_futex, &me.wake_counter, FUTEX_WAIT, seen, &limit, nullptr, 0);
  }
}

bool Group::process_is_gone(int peer) const {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = peer;
  lock.l_len = 1;
  return fcntl(fd_, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

void Group::check_peers(const std::string& call, const std::function<RankSet()>& pending, bool check_processes) {
  RankSet left = 0, gone = 0;
  for (int r = 0; r < size; ++r) {
    const uint32_t state = members_[r].state.load(std::memory_order_acquire);
    if (r == rank || state == kAbsent) continue;
    if (state == kLeft) {
      left |= rank_bit(r);
    } else if (check_processes && process_is_gone(r)) {
      gone |= rank_bit(r);
    }
  }
  if ((left | gone) == 0) return;
  // They may have finished their part before leaving.
  const RankSet missing = pending();
  if ((missing & gone) != 0) {
    fail(HP_ERROR, call + ": rank " + std::to_string(rank) + " waits for " + describe(missing & gone) +
                       ", whose process has ended");
  } else if ((missing & left) != 0) {
    fail(HP_ERROR, call + ": rank " + std::to_string(rank) + " waits for " + describe(missing & left) +
                       ", which has left the group");
  } else {
    return;
  }
  throw_failure();
}

std::string Group::describe(RankSet ranks) const {
  std::string text;
  for (int r = 0; r < size; ++r)
    if (ranks & rank_bit(r)) text += (text.empty() ? "" : ", ") + std::to_string(r);
  return ((ranks & (ranks - 1)) == 0 ? "rank " : "ranks ") + text;
}

// --- failures --------------------------------------------------------------------------------------------------------

void Group::fail(HpStatus status, const std::string& what) noexcept {
  uint32_t expected = kHealthy;
  if (header_->failure.compare_exchange_strong(expected, kFailing)) {
    header_->status = status;
    snprintf(header_->message, sizeof header_->message, "%s", what.c_str());
    header_->failure.store(kFailed, std::memory_order_release);
  }
  for (int r = 0; r < size; ++r) wake(r);
}

bool Group::failed() const { return header_->failure.load(std::memory_order_acquire) != kHealthy; }

void Group::throw_failure() const {
  // The failing rank may still be writing the message, or have died meanwhile.
  for (int i = 0; i < 100 && header_->failure.load(std::memory_order_acquire) != kFailed; ++i)
    std::this_thread::sleep_for(milliseconds(1));
  if (header_->failure.load(std::memory_order_acquire) != kFailed)
    throw StatusError(HP_ERROR, "a rank failed and its process ended");
  throw StatusError(header_->status, header_->message);
}

}  // namespace sim
