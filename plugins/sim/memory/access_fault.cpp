#include "memory/access_fault.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "memory/device_memory.h"

namespace sim {

thread_local KernelTrap* kernel_trap = nullptr;

namespace {

struct sigaction previous_segv, previous_bus;
// A handler that the program installed after ours, for example Python's faulthandler: now behind ours.
struct sigaction later_segv;
std::atomic<bool> has_later{false}, calling_later{false};

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

void handle(int signal, siginfo_t* info, void* context) {
  struct sigaction& previous = signal == SIGSEGV ? previous_segv : previous_bus;
  const bool from_fault = info->si_code > 0;  // otherwise sent by kill() or raise()
  if (signal == SIGSEGV && from_fault && kernel_trap != nullptr) {
    KernelTrap* const trap = kernel_trap;
    kernel_trap = nullptr;
    trap->address = reinterpret_cast<uintptr_t>(info->si_addr);
    siglongjmp(trap->resume, 1);
  }
  if (signal == SIGSEGV && has_later.load() && !calling_later.exchange(true)) {
    later_segv.sa_sigaction(signal, info, context);
    calling_later.store(false);
    return;
  }
  if (from_fault && explain(signal, reinterpret_cast<uintptr_t>(info->si_addr))) {
    sigaction(signal, &previous, nullptr);  // the access is retried and faults again
  } else if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    sigaction(signal, &previous, nullptr);
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

}  // namespace

void install_access_fault_handler() {
  install(SIGSEGV, &previous_segv);
  install(SIGBUS, &previous_bus);
}

void rearm_access_fault_handler() {
  struct sigaction current;
  if (has_later.load() || sigaction(SIGSEGV, nullptr, &current) != 0) return;
  // A handler without SA_SIGINFO takes its first argument only, and ignores the others.
  if (current.sa_sigaction == handle || current.sa_handler == SIG_DFL || current.sa_handler == SIG_IGN) return;
  later_segv = current;
  has_later.store(true);
  struct sigaction ignored;
  install(SIGSEGV, &ignored);
}

}  // namespace sim
