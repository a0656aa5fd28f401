// Explains the fault when host code touches device memory.
#pragma once

namespace sim {

// Installs handlers for SIGSEGV and SIGBUS that print why, then let the previous handler have the fault.
void install_guard();

}  // namespace sim
