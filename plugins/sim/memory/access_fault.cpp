#include "memory/access_fault.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "memory/device_memory.h"

namespace sim {

thread_local KernelTrap* kernel_trap = nullptr;

namespace {

struct sigaction previous_segv, previous_bus;
// Handlers that other libraries, such as Paddle and Python's faulthandler, installed in place of ours. Ours is
// installed again in front of them. The newest is last and is called first. Each sees ours as its predecessor and may
// call it.
constexpr size_t kMaxLater = 8;
struct sigaction later_segv[kMaxLater];
std::atomic<size_t> later_count{0};
// The number of these handlers that this thread is in, and the stack frame that called the last one.
thread_local size_t later_depth = 0;
thread_local uintptr_t later_frame = 0;
// The last faulting access of this thread, and how many times in a row it faulted. A handler may return after making
// the memory accessible, but a disabled one returns without doing anything.
constexpr int kMaxRetries = 1000;
thread_local uintptr_t last_address = 0;
thread_local int retries = 0;
std::atomic_flag rearming = ATOMIC_FLAG_INIT;
std::atomic<uintptr_t> explained{0};  // once is enough if a handler returns and the access is retried

// Runs in a signal handler: async-signal-safe calls only.
class Line {
 public:
  Line& text(const char* s) {
    while (*s && length_ < sizeof buffer_) buffer_[length_++] = *s++;
    return *this;
  }
  Line& number(uintptr_t value, unsigned base) {
    char digits[24];
    size_t count = 0;
    do digits[count++] = "0123456789abcdef"[value % base];
    while ((value /= base) != 0);
    while (count > 0 && length_ < sizeof buffer_) buffer_[length_++] = digits[--count];
    return *this;
  }
  void print() const {
    ssize_t ignored = write(STDERR_FILENO, buffer_, length_);
    (void)ignored;
  }

 private:
  char buffer_[320];
  size_t length_ = 0;
};

bool explain(int signal, uintptr_t address) {
  const uintptr_t offset = address - reservation.base;
  if (offset < reservation.total) {
    if (explained.exchange(address) == address) return true;
    Line()
        .text("hardpoint sim: host code touched device memory at 0x")
        .number(address, 16)
        .text(" (sim:")
        .number(offset / reservation.window, 10)
        .text(
            "). Device memory is not readable from the host: copy the tensor first, e.g. tensor.cpu(), or let a kernel "
            "do it.\n")
        .print();
    return true;
  }
  const uintptr_t alias = offset - static_cast<uintptr_t>(reservation.alias);
  if (signal == SIGBUS && alias < reservation.total) {
    Line()
        .text("hardpoint sim: out of host memory for the memory of sim:")
        .number(alias / reservation.window, 10)
        .text(". Use a smaller HARDPOINT_SIM_MEMORY.\n")
        .print();
    return true;
  }
  return false;
}

void call(const struct sigaction& action, int signal, siginfo_t* info, void* context) {
  if (action.sa_flags & SA_SIGINFO) {
    action.sa_sigaction(signal, info, context);
  } else {
    action.sa_handler(signal);
  }
}

bool is_function(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

// Calls the newest later handler that this thread is not in. Returns whether there was one.
bool call_later(int signal, siginfo_t* info, void* context) {
  const uintptr_t frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (frame >= later_frame) later_depth = 0;  // a handler left by longjmp: a nested call would be deeper in the stack
  const size_t count = later_count.load(std::memory_order_acquire);
  if (later_depth >= count) return false;
  const struct sigaction action = later_segv[count - 1 - later_depth];
  const uintptr_t outer_frame = later_frame;
  later_frame = frame;
  ++later_depth;
  call(action, signal, info, context);
  --later_depth;
  later_frame = outer_frame;
  return true;
}

void handle(int signal, siginfo_t* info, void* context) {
  struct sigaction& previous = signal == SIGSEGV ? previous_segv : previous_bus;
  const bool from_fault = info->si_code > 0;  // otherwise sent by kill() or raise()
  const uintptr_t address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (signal == SIGSEGV && from_fault && kernel_trap != nullptr) {
    KernelTrap* const trap = kernel_trap;
    kernel_trap = nullptr;
    trap->address = address;
    siglongjmp(trap->resume, 1);
  }
  const bool ours = from_fault && explain(signal, address);
  if (from_fault) retries = address == last_address ? retries + 1 : 0;
  last_address = address;
  if (signal == SIGSEGV && retries < kMaxRetries && call_later(signal, info, context)) return;
  if (!ours && is_function(previous)) {
    call(previous, signal, info, context);
  } else {
    sigaction(signal, &previous, nullptr);  // the access is retried and faults again
    if (!from_fault) raise(signal);
  }
}

void install(int signal, struct sigaction* previous) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;  // the handler of a kernel's fault does not return
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, previous);
}

bool is_ours(const struct sigaction& action) { return action.sa_sigaction == handle; }

}  // namespace

void install_access_fault_handler() {
  install(SIGSEGV, &previous_segv);
  install(SIGBUS, &previous_bus);
}

void rearm_access_fault_handler() {
  struct sigaction current;
  if (sigaction(SIGSEGV, nullptr, &current) != 0 || is_ours(current)) return;
  if (rearming.test_and_set(std::memory_order_acquire)) return;  // another thread does it
  if (!is_function(current)) {
    later_count.store(0);  // a library restored the default, which removes all earlier ones
    previous_segv = current;
  } else {
    size_t count = later_count.load();
    const auto same = [&](const struct sigaction& known) { return known.sa_sigaction == current.sa_sigaction; };
    if (count < kMaxLater && !std::any_of(later_segv, later_segv + count, same)) {
      later_segv[count] = current;
      later_count.store(count + 1, std::memory_order_release);
    }
  }
  struct sigaction ignored;
  install(SIGSEGV, &ignored);
  rearming.clear(std::memory_order_release);
}

void rearm_access_fault_handler_if_due() {
  static std::atomic<int64_t> checked{-1};
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  const int64_t tick = int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
  if (checked.load(std::memory_order_relaxed) == tick) return;
  checked.store(tick, std::memory_order_relaxed);
  rearm_access_fault_handler();
}

}  // namespace sim
