// CPU levels that kernels are compiled for. A level covers many CPUs, so a binary runs wherever the fingerprint
// matches.
#pragma once

#include <string>
#include <vector>

namespace sim {

struct CpuArch {
  const char* name;         // value of HARDPOINT_SIM_ARCH
  const char* fingerprint;  // "c-" + name
  const char* option;       // of the C compiler
};

// All levels from lowest to highest, including those this CPU does not support.
const std::vector<CpuArch>& all_cpu_archs();
// The highest level this CPU supports.
const CpuArch* best_cpu_arch();
// Null if the level does not exist or this CPU does not support it.
const CpuArch* find_cpu_arch(const char* name);
// Comma-separated names of the levels this CPU supports.
std::string runnable_cpu_archs();

}  // namespace sim
