// Host callbacks, fork detection and exception handling, used by every file of the plug-in.
#pragma once

#include <atomic>
#include <exception>
#include <stdexcept>
#include <string>

#include "hardpoint/plugin.h"

namespace sim {

extern const HpHost* host;

// After fork(), a child has no worker threads and shares the parent's device memory, so it cannot use a device that the
// parent used. A child forked before the first use can: it opens its own devices.
extern std::atomic<bool> device_used;
extern std::atomic<bool> forked;
inline bool unusable_after_fork() { return forked.load(std::memory_order_relaxed); }
constexpr const char* kForkedMessage =
    "sim was used before fork() and cannot be used in the child: start the process with 'spawn' instead of 'fork'";

void install_fork_handler();

// An exception that carries the HpStatus to return.
struct StatusError : std::runtime_error {
  StatusError(HpStatus status, const std::string& what) : std::runtime_error(what), status(status) {}
  HpStatus status;
};

// Wraps a contract function: turns exceptions into host->fail, and fails calls made after fork().
template <bool is_release, auto function>
struct Guard;
template <bool is_release, class... Arguments, HpStatus (*function)(Arguments...)>
struct Guard<is_release, function> {
  static HpStatus call(Arguments... arguments) {
    if (unusable_after_fork()) return is_release ? HP_OK : host->fail(HP_DEVICE_LOST, "%s", kForkedMessage);
    try {
      return function(arguments...);
    } catch (const StatusError& e) {
      return host->fail(e.status, "sim: %s", e.what());
    } catch (const std::exception& e) {
      return host->fail(HP_ERROR, "sim: %s", e.what());
    }
  }
};
template <auto function>
constexpr auto guarded = &Guard<false, function>::call;
// For functions that release a resource. They do nothing in a forked child: destructors may run there, but the parent
// owns the resource.
template <auto function>
constexpr auto guarded_release = &Guard<true, function>::call;

}  // namespace sim
