// Build tool: compiles portable kernels exactly as the plug-in does, for every CPU level, to ship them with the
// package.
//
//   hardpoint_sim_prebuild                       prints the fingerprints, and which is this machine's
//   hardpoint_sim_prebuild FINGERPRINT IN OUT    compiles the source IN into OUT
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "compiler/c_compiler.h"
#include "compiler/cpu_arch.h"
#include "config.h"
#include "host.h"

namespace {

HpStatus fail(HpStatus status, const char* format, ...) {
  va_list values;
  va_start(values, format);
  vfprintf(stderr, format, values);
  va_end(values);
  fputc('\n', stderr);
  return status;
}

}  // namespace

int main(int count, char** arguments) {
  HpHost host{};
  host.fail = fail;
  sim::host = &host;
  if (count != 4) {
    for (const sim::CpuArch& arch : sim::all_cpu_archs())
      printf("%s %s\n", arch.fingerprint, strcmp(arch.name, sim::best_cpu_arch()->name) == 0 ? "native" : "other");
    return 0;
  }
  for (const sim::CpuArch& arch : sim::all_cpu_archs()) {
    if (strcmp(arch.fingerprint, arguments[1]) == 0) sim::config.arch = &arch;
  }
  if (sim::config.arch == nullptr) return fail(HP_INVALID_ARGUMENT, "unknown fingerprint '%s'", arguments[1]);
  std::ifstream source(arguments[2]);
  const std::string text((std::istreambuf_iterator<char>(source)), std::istreambuf_iterator<char>());
  sim::find_c_compiler();
  std::string library;
  if (HpStatus status = sim::compile_source(text.c_str(), "", &library)) return status;
  std::ofstream(arguments[3], std::ios::binary) << library;
  return 0;
}
