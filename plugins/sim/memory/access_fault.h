// Invalid memory accesses: a kernel fails with an error; host code gets an explanation before it crashes.
#pragma once

#include <setjmp.h>

#include <cstdint>

namespace sim {

// Installs SIGSEGV and SIGBUS handlers that leave the running kernel, or print the cause and chain to the previous
// handler.
void install_access_fault_handler();

// Puts our SIGSEGV handler in front of one that a library has installed since. Called when kernels are loaded.
void rearm_access_fault_handler();

// The same for launches: at most one system call per tick of the coarse clock (a few milliseconds).
void rearm_access_fault_handler_if_due();

// Where a thread continues if the kernel that it runs faults.
struct KernelTrap {
  sigjmp_buf resume;
  volatile uintptr_t address;  // of the access
};
extern thread_local KernelTrap* kernel_trap;  // null outside of kernels

// Calls a kernel. Returns whether it ended without a fault, else `address` is that of the access. The kernel is plain
// C: leaving it skips no destructors.
template <class Kernel>
bool run_trapped(const Kernel& kernel, uintptr_t* address) {
  KernelTrap trap;
  if (sigsetjmp(trap.resume, 0) != 0) {
    *address = trap.address;
    return false;
  }
  kernel_trap = &trap;
  kernel();
  kernel_trap = nullptr;
  return true;
}

}  // namespace sim
