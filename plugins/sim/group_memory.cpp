#include "group_memory.h"

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
#include "threads.h"

namespace sim {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint64_t kMagic = 0x31504f52'474d4953;  // "SIMGROP1"
constexpr milliseconds kLook{200};                // how often a process that waits looks whether the others still run

enum : uint32_t { kAbsent, kJoined, kLeft };
enum : uint32_t { kFine, kFailing, kFailed };

constexpr size_t whole_pages(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

// Ranks of one process would take each other's locks for their own.
uint64_t process_token() {
  static const uint64_t token = [] {
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random) throw Failure(HP_ERROR, "getrandom");
    return random | 1;  // 0 is nobody's
  }();
  return token;
}

// Memory for a part of the object, so that a full /dev/shm is an error here and not SIGBUS at the first touch.
bool reserve(int fd, off_t first, size_t bytes) {
  int result;
  do result = fallocate(fd, 0, first, static_cast<off_t>(bytes));
  while (result != 0 && errno == EINTR);
  return result == 0 || errno == EOPNOTSUPP;
}

std::string last_error(const char* what) { return std::string(what) + ": " + strerror(errno); }

}  // namespace

// --- the id ----------------------------------------------------------------------------------------------------------

GroupId::Content GroupId::here() {
  Content content = {};
  content.magic = kMagic;
  struct stat status;
  // Two containers of one machine have a /dev/shm each.
  if (stat("/dev/shm", &status) != 0) throw Failure(HP_NOT_SUPPORTED, last_error("/dev/shm"));
  content.shm_device = status.st_dev;
  content.user = geteuid();
  const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  const ssize_t length = fd < 0 ? -1 : read(fd, content.boot, sizeof content.boot - 1);
  if (fd >= 0) close(fd);
  if (length < 0) throw Failure(HP_NOT_SUPPORTED, last_error("/proc/sys/kernel/random/boot_id"));
  return content;
}

void GroupId::make(unsigned char id[HP_GROUP_ID_BYTES]) {
  static_assert(sizeof(Content) <= HP_GROUP_ID_BYTES, "the id must fit");
  Content content = here();
  if (getrandom(content.key, sizeof content.key, 0) != sizeof content.key)
    throw Failure(HP_ERROR, last_error("getrandom"));
  memset(id, 0, HP_GROUP_ID_BYTES);
  memcpy(id, &content, sizeof content);
}

GroupId::GroupId(const unsigned char id[HP_GROUP_ID_BYTES]) {
  memcpy(&content_, id, sizeof content_);
  if (content_.magic != kMagic) throw Failure(HP_INVALID_ARGUMENT, "this is not a group id of sim");
}

std::string GroupId::obstacle() const {
  const Content mine = here();
  if (memcmp(mine.boot, content_.boot, sizeof mine.boot) != 0) return "the group is on another machine";
  if (mine.shm_device != content_.shm_device) return "the group has another /dev/shm, as containers do";
  if (mine.user != content_.user) return "the group belongs to another user";
  return "";
}

std::string GroupId::object_name() const {
  char name[64];
  snprintf(name, sizeof name, "/hardpoint-sim-%016llx%016llx", static_cast<unsigned long long>(content_.key[0]),
           static_cast<unsigned long long>(content_.key[1]));
  return name;
}

// --- joining and leaving ---------------------------------------------------------------------------------------------

struct Group::Header {
  std::atomic<uint32_t> size;  // of the group, as the first rank gave it
  std::atomic<uint32_t> failure;
  HpStatus status;
  char message[1000];
};

Group::Group(const GroupId& id, int rank, int size, uint32_t timeout_ms)
    : rank(rank), size(size), timeout_ms_(timeout_ms), reserved_(static_cast<size_t>(size)) {
  const std::string name = id.object_name();
  try {
    map(name);
    enter();
    wait_for_all();
  } catch (...) {
    shm_unlink(name.c_str());
    unmap();
    throw;
  }
  shm_unlink(name.c_str());
}

Group::~Group() {
  self().state.store(kLeft, std::memory_order_release);
  ring_others();
  unmap();
}

void Group::throw_different_sizes() const {
  throw Failure(HP_INVALID_ARGUMENT, "the ranks give different sizes of the group; this one, rank " +
                                         std::to_string(rank) + ", gives " + std::to_string(size));
}

void Group::map(const std::string& name) {
  const size_t n = static_cast<size_t>(size), pairs = n * n;
  const size_t members = whole_pages(sizeof(Header)), channels = members + whole_pages(n * sizeof(Member));
  const size_t slots = channels + whole_pages(pairs * sizeof(Channel)), channel_data = slots + n * 2 * kSlotBytes;
  bytes_ = channel_data + pairs * kChannelSlots * kChannelSlotBytes;

  fd_ = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (fd_ < 0) throw Failure(HP_ERROR, last_error("shm_open"));
  struct stat status;
  if (fstat(fd_, &status) != 0) throw Failure(HP_ERROR, last_error("fstat"));
  if (status.st_size != 0 && static_cast<size_t>(status.st_size) != bytes_) throw_different_sizes();
  if (ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) throw Failure(HP_ERROR, last_error("ftruncate"));
  if (!reserve(fd_, 0, channel_data))
    throw Failure(HP_OUT_OF_MEMORY, last_error("/dev/shm") + "; a group of " + std::to_string(size) + " needs " +
                                        std::to_string(channel_data >> 10) + " KiB there, and " +
                                        std::to_string(kChannelSlots * kChannelSlotBytes >> 10) +
                                        " KiB more for each pair that sends");
  void* const mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
  if (mapped == MAP_FAILED) throw Failure(HP_ERROR, last_error("mmap"));
  char* const base = static_cast<char*>(mapped);
  // Zeros are what everything begins with.
  header_ = reinterpret_cast<Header*>(base);
  members_ = reinterpret_cast<Member*>(base + members);
  channels_ = reinterpret_cast<Channel*>(base + channels);
  slots_ = base + slots;
  channel_data_ = base + channel_data;
  uint32_t none = 0;
  if (!header_->size.compare_exchange_strong(none, static_cast<uint32_t>(size)) && none != static_cast<uint32_t>(size))
    throw_different_sizes();
}

void Group::enter() {
  // Locks belong to the process, not to its children, and end with it: byte r of the object is held while rank r lives.
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
                                 std::to_string(std::max(r, rank)) + " are of one process; sim connects processes");
      throw_failure();
    }
  }
  uint32_t absent = kAbsent;
  // A process's own lock does not stop it from joining twice; the state does.
  if (!locked || !self().state.compare_exchange_strong(absent, kJoined))
    throw Failure(HP_INVALID_ARGUMENT, "rank " + std::to_string(rank) + " has joined the group already");
  ring_others();
}

void Group::wait_for_all() {
  wait("joining", [this] {
    return unfinished(everyone(), [](const Member& m) { return m.state.load(std::memory_order_acquire) != kAbsent; });
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

void Group::ring(int whose) {
  Member& other = members_[whose];
  other.bell.fetch_add(1);
  if (other.sleepers.load() != 0) syscall(SYS_futex, &other.bell, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

void Group::ring_others() {
  for (int r = 0; r < size; ++r)
    if (r != rank) ring(r);
}

void Group::wait(const std::string& call, const std::function<Ranks()>& pending) {
  // Ranks that outnumber the cores only hinder each other by spinning.
  const std::chrono::microseconds spin(size <= config.cores ? 20 : 1);
  // What has come counts, whatever failed afterwards.
  if (pending() == 0 || spin_until(spin, [&] { return pending() == 0; })) return;
  Member& me = self();
  struct Sleeper {
    std::atomic<uint32_t>& count;
    ~Sleeper() { count.fetch_sub(1); }
  } sleeper{me.sleepers};
  me.sleepers.fetch_add(1);

  const Clock::time_point start = Clock::now(), end = start + milliseconds(timeout_ms_);
  Clock::time_point next_look = start + kLook;
  for (;;) {
    const uint32_t seen = me.bell.load();
    const Ranks missing = pending();
    if (missing == 0) return;
    if (failed()) throw_failure();
    Clock::time_point now = Clock::now();
    const bool limited = timeout_ms_ != 0 && (missing & ~only(rank)) != 0;
    look_after(call, pending, now >= next_look);
    if (now >= next_look) next_look = now + kLook;
    if (limited && now >= end) {
      fail(HP_TIMEOUT, call + ": rank " + std::to_string(rank) + " has waited " + std::to_string(timeout_ms_) +
                           " ms for " + names(missing & ~only(rank)));
      throw_failure();
    }
    const auto left = std::max(limited ? std::min(next_look, end) - now : next_look - now, Clock::duration(1));
    const long ns = static_cast<long>(std::chrono::nanoseconds(left).count());
    const timespec limit = {ns / 1000000000, ns % 1000000000};
    syscall(SYS_futex, &me.bell, FUTEX_WAIT, seen, &limit, nullptr, 0);
  }
}

bool Group::process_is_gone(int of) const {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = of;
  lock.l_len = 1;
  return fcntl(fd_, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

void Group::look_after(const std::string& call, const std::function<Ranks()>& pending, bool at_processes) {
  Ranks left = 0, gone = 0;
  for (int r = 0; r < size; ++r) {
    const uint32_t state = members_[r].state.load(std::memory_order_acquire);
    if (r == rank || state == kAbsent) continue;
    if (state == kLeft) {
      left |= only(r);
    } else if (at_processes && process_is_gone(r)) {
      gone |= only(r);
    }
  }
  if ((left | gone) == 0) return;
  // They may have done their part before.
  const Ranks missing = pending();
  if ((missing & gone) != 0) {
    fail(HP_ERROR,
         call + ": rank " + std::to_string(rank) + " waits for " + names(missing & gone) + ", whose process has ended");
  } else if ((missing & left) != 0) {
    fail(HP_ERROR, call + ": rank " + std::to_string(rank) + " waits for " + names(missing & left) +
                       ", which has left the group");
  } else {
    return;
  }
  throw_failure();
}

std::string Group::names(Ranks ranks) const {
  std::string text;
  for (int r = 0; r < size; ++r)
    if (ranks & only(r)) text += (text.empty() ? "" : ", ") + std::to_string(r);
  return ((ranks & (ranks - 1)) == 0 ? "rank " : "ranks ") + text;
}

// --- failing ---------------------------------------------------------------------------------------------------------

void Group::fail(HpStatus status, const std::string& what) noexcept {
  uint32_t fine = kFine;
  if (header_->failure.compare_exchange_strong(fine, kFailing)) {
    header_->status = status;
    snprintf(header_->message, sizeof header_->message, "%s", what.c_str());
    header_->failure.store(kFailed, std::memory_order_release);
  }
  for (int r = 0; r < size; ++r) ring(r);
}

bool Group::failed() const { return header_->failure.load(std::memory_order_acquire) != kFine; }

void Group::throw_failure() const {
  // Its author may be in the middle of it, or have died there.
  for (int i = 0; i < 100 && header_->failure.load(std::memory_order_acquire) != kFailed; ++i)
    std::this_thread::sleep_for(milliseconds(1));
  if (header_->failure.load(std::memory_order_acquire) != kFailed)
    throw Failure(HP_ERROR, "a rank failed and its process ended");
  throw Failure(header_->status, header_->message);
}

}  // namespace sim
