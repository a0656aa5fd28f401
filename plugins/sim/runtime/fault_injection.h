// Fault injection: makes selected allocations, copies and kernels fail, or kernels hang.
//
// Syntax: kind[:after=N][:count=M][:operator=substring], several separated by commas. Kinds: allocate, copy, kernel,
// hang. Fails M matching actions (default 1; 0: all), starting with the Nth (default 1).
#pragma once

#include <atomic>
#include <cstdint>

#include "hardpoint/plugin.h"

namespace sim {

enum class FaultKind { allocate, copy, kernel, hang };

// Without faults, the only cost is one relaxed load.
extern std::atomic<bool> faults_armed_flag;
inline bool faults_armed() { return faults_armed_flag.load(std::memory_order_relaxed); }

// Counts one action of this kind. Returns 0, or the version of the fault list if the action must fail. Call only if
// faults are armed.
uint64_t take_fault(FaultKind kind, const char* operator_name);

// Sleeps until the version of the fault list changes, or for config.hang_seconds.
void hang(uint64_t version);

// Replaces all faults; an empty specification removes them.
HpStatus set_faults(const char* specification);

}  // namespace sim
