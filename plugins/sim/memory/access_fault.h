// Error messages for host code that touches device memory.
#pragma once

namespace sim {

// Installs SIGSEGV and SIGBUS handlers that print the cause, then chain to the previous handler.
void install_access_fault_handler();

}  // namespace sim
