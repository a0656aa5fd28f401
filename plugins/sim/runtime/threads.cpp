#include "runtime/threads.h"

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace sim {

void start_thread(const char* name, std::function<void()> body) {
  // The thread blocks all signals except its own faults, and leaves the others to the program's threads. It is detached
  // and its data is never destroyed, so the process can exit at any time.
  sigset_t all, before;
  sigfillset(&all);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread(std::move(body));
    pthread_setname_np(thread.native_handle(), name);
    thread.detach();
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace sim
