#include "runtime/thread_pool.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <exception>
#include <memory>
#include <system_error>

#include "runtime/threads.h"

namespace sim {

namespace {

using Clock = std::chrono::steady_clock;
using Word = std::atomic<uint32_t>;
static_assert(sizeof(Word) == 4 && Word::is_always_lock_free, "a futex word has 32 bits");

void futex_wait(Word& word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
void futex_wake(Word& word, uint32_t count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, static_cast<int>(std::min<uint32_t>(count, INT_MAX)), nullptr, nullptr,
          0);
}

// The next task usually arrives within microseconds, so idle threads spin, but leave a core each for the program and
// for the stream's worker.
constexpr std::chrono::microseconds kSpin{20};
bool may_spin(uint32_t index) { return index + 2 <= static_cast<uint32_t>(config.cores); }

// Typical time to wake a sleeping thread.
constexpr std::chrono::microseconds kWakeLatency{10};

class Pool {
 public:
  void run(uint64_t count, void (*run)(const void*, uint64_t, uint64_t), const void* body,
           std::atomic<GroupCost>& cost) {
    if (busy_.exchange(true, std::memory_order_acquire)) return run(body, 0, count);
    if (!started_) start();
    run_ = run;
    body_ = body;
    failure_ = nullptr;
    failed_.store(false, std::memory_order_relaxed);
    split(count);
    // Pairs with wait_for_task, which counts itself as a sleeper and then reads the state: one side always sees the
    // other.
    state_.fetch_add(kOpen + kTask, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) wake_if_worthwhile(count, cost);
    work(0);
    finish();
    const std::exception_ptr failure = failure_;
    busy_.store(false, std::memory_order_release);
    if (failure) std::rethrow_exception(failure);
  }

 private:
  // One thread's share of the groups. Taken piece by piece, so other threads can steal the rest.
  struct alignas(64) Share {
    std::atomic<uint64_t> next;
    uint64_t end;
  };
  static constexpr uint64_t kPiecesPerShare = 4;

  // Bit fields of state_: active pool threads, whether more may enter, whether the owner sleeps until the last one
  // leaves, and the task number. The number wraps around; a thread that sleeps through a full cycle skips one task,
  // which the others complete.
  static constexpr uint32_t kActive = (1 << 10) - 1, kOpen = 1 << 10, kOwnerSleeps = 1 << 11, kTask = 1 << 12;
  static_assert(kMaxThreads <= kActive, "kActive must hold the number of threads");

  void start() {
    started_ = true;
    shares_.reset(new Share[static_cast<size_t>(config.threads)]);
    try {
      for (uint32_t i = 1; i < static_cast<uint32_t>(config.threads); ++i)
        start_thread("sim/pool", [this, i] { run_worker(i); });
    } catch (const std::system_error&) {
      // Thread limit reached: continue with the threads already started.
    }
  }

  void split(uint64_t count) {
    num_shares_ = static_cast<uint32_t>(std::min<uint64_t>(count, static_cast<uint64_t>(config.threads)));
    const uint64_t each = count / num_shares_, more = count % num_shares_;
    piece_ = std::max<uint64_t>(1, each / kPiecesPerShare);
    uint64_t first = 0;
    for (uint32_t i = 0; i < num_shares_; ++i) {
      shares_[i].next.store(first, std::memory_order_relaxed);
      first += each + (i < more);
      shares_[i].end = first;
    }
  }

  // Small tasks finish before a thread has woken up, so the first group is timed to decide. If groups are known to be
  // slow, wake the threads before running it.
  void wake_if_worthwhile(uint64_t count, std::atomic<GroupCost>& cost) {
    const bool wake_first = cost.load(std::memory_order_relaxed) == GroupCost::high;
    if (wake_first) wake();
    const Clock::time_point start = Clock::now();
    const uint64_t first = shares_[0].next.fetch_add(1, std::memory_order_relaxed);
    if (first >= shares_[0].end) return;
    run_range(first, first + 1);
    const Clock::duration taken = Clock::now() - start;
    cost.store(taken > kWakeLatency ? GroupCost::high : GroupCost::low, std::memory_order_relaxed);
    if (!wake_first && taken * static_cast<double>(count - 1) > kWakeLatency) wake();
  }
  void wake() {
    wake_counter_.fetch_add(1, std::memory_order_seq_cst);
    futex_wake(wake_counter_, num_shares_ - 1);
  }

  // Afterwards no pool thread touches the task.
  void finish() {
    state_.fetch_and(~kOpen, std::memory_order_acq_rel);
    const auto left = [this] { return (state_.load(std::memory_order_acquire) & kActive) == 0; };
    if (left() || spin_until(kSpin, left)) return;
    state_.fetch_or(kOwnerSleeps, std::memory_order_acq_rel);
    for (uint32_t state; ((state = state_.load(std::memory_order_acquire)) & kActive) != 0;) futex_wait(state_, state);
    state_.fetch_and(~kOwnerSleeps, std::memory_order_relaxed);
  }

  static bool is_new_task(uint32_t state, uint32_t last_task) { return (state & kOpen) && state / kTask != last_task; }

  bool enter(uint32_t* last_task) {
    uint32_t state = state_.load(std::memory_order_relaxed);
    do {
      if (!is_new_task(state, *last_task)) return false;
    } while (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel));
    *last_task = state / kTask;
    return true;
  }
  void leave() {
    const uint32_t before = state_.fetch_sub(1, std::memory_order_acq_rel);
    if ((before & kActive) == 1 && (before & kOwnerSleeps)) futex_wake(state_, 1);
  }

  void run_worker(uint32_t index) {
    uint32_t last_task = 0;
    for (;;) {
      wait_for_task(index, last_task);
      if (!enter(&last_task)) continue;
      work(index);
      leave();
    }
  }

  void wait_for_task(uint32_t index, uint32_t last_task) {
    const auto is_new = [&] { return is_new_task(state_.load(std::memory_order_relaxed), last_task); };
    if (may_spin(index) ? spin_until(kSpin, is_new) : is_new()) return;
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t observed = wake_counter_.load(std::memory_order_seq_cst);
    if (!is_new_task(state_.load(std::memory_order_seq_cst), last_task)) futex_wait(wake_counter_, observed);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }

  // Starts with this thread's own share, for cache locality between tasks.
  void work(uint32_t index) {
    for (uint32_t i = 0; i < num_shares_; ++i) {
      Share& share = shares_[(index + i) % num_shares_];
      while (share.next.load(std::memory_order_relaxed) < share.end) {
        const uint64_t first = share.next.fetch_add(piece_, std::memory_order_relaxed);
        if (first >= share.end) break;
        run_range(first, std::min(first + piece_, share.end));
      }
    }
  }
  void run_range(uint64_t first, uint64_t last) {
    try {
      run_(body_, first, last);
    } catch (...) {
      if (!failed_.exchange(true, std::memory_order_acq_rel)) failure_ = std::current_exception();
    }
  }

  // Held by the thread that owns the current task; only the owner writes the fields below.
  std::atomic<bool> busy_{false};
  bool started_ = false;
  void (*run_)(const void*, uint64_t, uint64_t) = nullptr;
  const void* body_ = nullptr;
  std::unique_ptr<Share[]> shares_;
  uint32_t num_shares_ = 0;
  uint64_t piece_ = 1;
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;

  alignas(64) Word state_{0};
  alignas(64) Word wake_counter_{0};  // futex of the sleeping threads
  Word sleepers_{0};
};

// Never destroyed: its threads run until the process exits.
Pool* pool;

}  // namespace

void create_thread_pool() { pool = new Pool; }

void run_in_parallel(uint64_t count, void (*run)(const void*, uint64_t, uint64_t), const void* body,
                     std::atomic<GroupCost>& cost) {
  pool->run(count, run, body, cost);
}

}  // namespace sim
