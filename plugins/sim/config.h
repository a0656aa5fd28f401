// Settings of sim, read from the environment once in hp_plugin_init and constant afterwards.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compiler/cpu_arch.h"
#include "hardpoint/plugin.h"

namespace sim {

constexpr int kMaxDevices = 16;
constexpr int kMaxThreads = 512;

enum class Collectives { none, all, pairs };  // pairs: send and receive only

struct Config {
  int devices = 2;                   // HARDPOINT_SIM_DEVICES
  size_t memory = size_t{16} << 30;  // HARDPOINT_SIM_MEMORY, bytes per device, rounded down to whole pages
  bool deterministic = false;        // HARDPOINT_SIM_DETERMINISTIC: tasks run on the calling thread
  bool jitter = false;               // HARDPOINT_SIM_JITTER=<seed>: every task is queued and randomly delayed
  uint64_t jitter_seed = 0;
  bool checked = false;                        // HARDPOINT_SIM_CHECKED: operands must lie within one live allocation
  Collectives collectives = Collectives::all;  // HARDPOINT_SIM_COLLECTIVES
  bool tracing = true;                         // HARDPOINT_SIM_TRACING
  bool graphs = true;                          // HARDPOINT_SIM_GRAPHS; 0: Hardpoint replays recorded launches
  uint64_t hang_seconds = 60;                  // HARDPOINT_SIM_HANG_SECONDS
  int cores = 1;                               // CPU cores available to this process
  int threads = 1;                             // HARDPOINT_SIM_THREADS, threads per task; default: one per core
  const CpuArch* arch = nullptr;               // HARDPOINT_SIM_ARCH; default: the best this CPU supports
  uint64_t compiler_seconds = 60;              // HARDPOINT_SIM_COMPILER_SECONDS: CPU time, or time without any
};

extern Config config;

// Fills in `config`, or reports the invalid variable through host->fail.
HpStatus read_config();

}  // namespace sim
