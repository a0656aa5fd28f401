// The instruction set that kernels are compiled for: a level that many CPUs share, so that a binary fits wherever its
// fingerprint does.
#pragma once

#include <string>
#include <vector>

namespace sim {

struct Arch {
  const char* name;         // as HARDPOINT_SIM_ARCH spells it
  const char* fingerprint;  // "c-" and the name
  const char* option;       // for the C compiler
};

// Every level, also those that this CPU does not run, from the lowest to the highest.
const std::vector<Arch>& all_archs();
// The highest level that this CPU runs.
const Arch* best_arch();
// Null when this CPU cannot run that level, or there is none of that name.
const Arch* find_arch(const char* name);
// The names that find_arch takes here, for a message.
std::string runnable_archs();

}  // namespace sim
