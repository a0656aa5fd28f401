// Fault injection: makes chosen allocations, copies and kernels fail, or kernels hang.
//
// Specification: kind[:after=N][:count=M][:operator=substring], several separated by commas. The kinds are allocate,
// copy, kernel and hang. The Nth matching action (default 1) and those after it fail, M in all (default 1; 0: for
// ever).
#pragma once

#include <atomic>
#include <cstdint>

#include "hardpoint/plugin.h"

namespace sim {

enum class FaultKind { allocate, copy, kernel, hang };

// The only cost when no fault is set: one relaxed load.
extern std::atomic<bool> faults_armed_flag;
inline bool faults_armed() { return faults_armed_flag.load(std::memory_order_relaxed); }

// Counts one action of this kind. When it must fail: the version of the set of faults that says so, otherwise 0. Call
// only when faults are armed.
uint64_t strikes(FaultKind kind, const char* operator_name);

// Sleeps until the set of faults is no longer this version, or config.hang_seconds have passed.
void hang(uint64_t version);

// Replaces all faults; an empty text removes them.
HpStatus set_faults(const char* specification);

}  // namespace sim
