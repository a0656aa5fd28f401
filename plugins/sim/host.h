// What every part of the plug-in needs from its surroundings: the host's callbacks, and whether this process was
// forked.
#pragma once

#include <atomic>
#include <exception>
#include <stdexcept>
#include <string>

#include "hardpoint/plugin.h"

namespace sim {

extern const HpHost* host;

// Worker threads do not survive fork() and the device memory is shared with the parent, so that a child of a process
// that used a device cannot use it. A child forked before the first use can: it opens devices of its own.
extern std::atomic<bool> device_used;
extern std::atomic<bool> forked;
inline bool unusable_after_fork() { return forked.load(std::memory_order_relaxed); }
constexpr const char* kForkedMessage =
    "sim was used before fork() and cannot be used in the child: start the process with 'spawn' instead of 'fork'";

void watch_forks();

// An exception with a status of its own.
struct Failure : std::runtime_error {
  Failure(HpStatus status, const std::string& what) : std::runtime_error(what), status(status) {}
  HpStatus status;
};

// Wraps a function of the contract: keeps exceptions inside, and calls after fork() out.
template <bool gives_back, auto function>
struct Guard;
template <bool gives_back, class... Arguments, HpStatus (*function)(Arguments...)>
struct Guard<gives_back, function> {
  static HpStatus call(Arguments... arguments) {
    if (unusable_after_fork()) return gives_back ? HP_OK : host->fail(HP_DEVICE_LOST, "%s", kForkedMessage);
    try {
      return function(arguments...);
    } catch (const Failure& e) {
      return host->fail(e.status, "sim: %s", e.what());
    } catch (const std::exception& e) {
      return host->fail(HP_ERROR, "sim: %s", e.what());
    }
  }
};
template <auto function>
constexpr auto guarded = &Guard<false, function>::call;
// For functions that give something back. In a child they do nothing: destructors may run there, and everything is
// still the parent's.
template <auto function>
constexpr auto guarded_release = &Guard<true, function>::call;

}  // namespace sim
