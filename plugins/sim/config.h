// Settings of the simulated accelerator. Read from the environment once, in hp_plugin_init; constant afterwards.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arch.h"
#include "hardpoint/plugin.h"

namespace sim {

constexpr int kMaxDevices = 16;
constexpr int kMaxThreads = 512;

enum class Collectives { none, all, pairs };  // pairs: sends and receives only

struct Config {
  int devices = 2;                   // HARDPOINT_SIM_DEVICES
  size_t memory = size_t{16} << 30;  // HARDPOINT_SIM_MEMORY, bytes of each device, whole pages
  bool deterministic = false;        // HARDPOINT_SIM_DETERMINISTIC: tasks run on the calling thread
  bool jitter = false;               // HARDPOINT_SIM_JITTER=<seed>: every task is queued and delayed
  uint64_t jitter_seed = 0;
  bool checked = false;                        // HARDPOINT_SIM_CHECKED: operands must lie in one live allocation
  Collectives collectives = Collectives::all;  // HARDPOINT_SIM_COLLECTIVES
  uint64_t hang_seconds = 60;                  // HARDPOINT_SIM_HANG_SECONDS
  int cores = 1;                               // that this process may use; the machine may have more
  int threads = 1;             // HARDPOINT_SIM_THREADS, that share the work of a task; otherwise one for each core
  const Arch* arch = nullptr;  // HARDPOINT_SIM_ARCH; otherwise the best that this CPU runs
};

extern Config config;

// Fills in `config`, or explains through host->fail which variable is wrong.
HpStatus read_config();

}  // namespace sim
