#include "config.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "host.h"

namespace sim {

Config config;

namespace {

// Parses a whole number, with an optional K, M or G suffix if `sizes`. Returns false for anything else.
bool parse_number(const char* text, bool sizes, uint64_t* value) {
  if (*text < '0' || *text > '9') return false;  // strtoull accepts blanks and signs
  char* end;
  errno = 0;
  *value = strtoull(text, &end, 10);
  if (errno != 0) return false;
  if (!sizes || *end == '\0') return *end == '\0';
  const char* suffix = strchr("KMG", *end);
  if (!suffix || end[1] != '\0') return false;
  const int shift = 10 * static_cast<int>(suffix - "KMG" + 1);
  if (*value > UINT64_MAX >> shift) return false;
  *value <<= shift;
  return true;
}

// Leaves `value` unchanged if the variable is not set.
HpStatus read_number(const char* name, bool sizes, uint64_t low, uint64_t high, uint64_t* value) {
  const char* text = getenv(name);
  if (!text || !*text) return HP_OK;
  if (parse_number(text, sizes, value) && low <= *value && *value <= high) return HP_OK;
  return host->fail(HP_INVALID_ARGUMENT, "%s is '%s'; expected a whole number from %llu to %llu%s", name, text,
                    static_cast<unsigned long long>(low), static_cast<unsigned long long>(high),
                    sizes ? ", optionally with K, M or G" : "");
}

HpStatus read_switch(const char* name, bool* value) {
  uint64_t number = *value;
  const HpStatus status = read_number(name, false, 0, 1, &number);
  *value = number != 0;
  return status;
}

HpStatus read_collectives(Collectives* collectives) {
  const char* const text = getenv("HARDPOINT_SIM_COLLECTIVES");
  if (!text || !*text) return HP_OK;
  const std::string_view value = text;
  if (value != "0" && value != "1" && value != "pairs")
    return host->fail(HP_INVALID_ARGUMENT, "HARDPOINT_SIM_COLLECTIVES is '%s'; expected 0, 1 or pairs", text);
  *collectives = value == "0" ? Collectives::none : value == "1" ? Collectives::all : Collectives::pairs;
  return HP_OK;
}

int num_cores() {
  cpu_set_t cores;
  const long count =
      sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : sysconf(_SC_NPROCESSORS_ONLN);
  return static_cast<int>(std::max(count, 1L));
}

HpStatus read_arch(const CpuArch** arch) {
  const char* const name = getenv("HARDPOINT_SIM_ARCH");
  *arch = name && *name ? find_cpu_arch(name) : best_cpu_arch();
  if (*arch) return HP_OK;
  return host->fail(HP_INVALID_ARGUMENT, "HARDPOINT_SIM_ARCH is '%s'; expected one of %s", name,
                    runnable_cpu_archs().c_str());
}

}  // namespace

HpStatus read_config() {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  Config read;
  uint64_t devices = static_cast<uint64_t>(read.devices), memory = read.memory;
  // Max 1 TiB per device: 16 devices, each reserved twice (both views) with twice its size, fit in 47 address bits.
  if (HpStatus s = read_number("HARDPOINT_SIM_DEVICES", false, 0, kMaxDevices, &devices)) return s;
  if (HpStatus s = read_number("HARDPOINT_SIM_MEMORY", true, page, uint64_t{1} << 40, &memory)) return s;
  if (HpStatus s = read_switch("HARDPOINT_SIM_DETERMINISTIC", &read.deterministic)) return s;
  if (HpStatus s = read_switch("HARDPOINT_SIM_CHECKED", &read.checked)) return s;
  if (HpStatus s = read_collectives(&read.collectives)) return s;
  if (HpStatus s = read_switch("HARDPOINT_SIM_TRACING", &read.tracing)) return s;
  if (HpStatus s = read_switch("HARDPOINT_SIM_GRAPHS", &read.graphs)) return s;
  if (HpStatus s = read_number("HARDPOINT_SIM_HANG_SECONDS", false, 0, 1000000, &read.hang_seconds)) return s;
  if (HpStatus s = read_number("HARDPOINT_SIM_COMPILER_SECONDS", false, 1, 1000000, &read.compiler_seconds)) return s;
  if (HpStatus s = read_number("HARDPOINT_SIM_JITTER", false, 0, UINT64_MAX, &read.jitter_seed)) return s;
  const char* jitter = getenv("HARDPOINT_SIM_JITTER");
  read.jitter = jitter && *jitter;
  if (read.jitter && read.deterministic)
    return host->fail(HP_INVALID_ARGUMENT,
                      "HARDPOINT_SIM_JITTER and HARDPOINT_SIM_DETERMINISTIC are mutually exclusive: unset one");
  read.cores = num_cores();
  uint64_t threads = static_cast<uint64_t>(std::min(read.cores, kMaxThreads));
  if (HpStatus s = read_number("HARDPOINT_SIM_THREADS", false, 1, kMaxThreads, &threads)) return s;
  read.threads = static_cast<int>(threads);
  if (HpStatus s = read_arch(&read.arch)) return s;
  read.devices = static_cast<int>(devices);
  read.memory = memory / page * page;
  config = read;
  return HP_OK;
}

}  // namespace sim
