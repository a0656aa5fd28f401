// Compiles portable kernels as the plug-in would, for every level of the CPU and not only this machine's: a tool of the
// build, which fills the package's store of binaries.
//
//   hardpoint_sim_prebuild                 prints the fingerprints
//   hardpoint_sim_prebuild PRINT IN OUT    compiles a source for one of them
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "arch.h"
#include "config.h"
#include "host.h"
#include "toolchain.h"

namespace {

HpStatus fail(HpStatus status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  return status;
}

}  // namespace

int main(int count, char** words) {
  HpHost host{};
  host.fail = fail;
  sim::host = &host;
  if (count != 4) {
    for (const sim::Arch& arch : sim::all_archs()) printf("%s\n", arch.fingerprint);
    return 0;
  }
  for (const sim::Arch& arch : sim::all_archs()) {
    if (strcmp(arch.fingerprint, words[1]) == 0) sim::config.arch = &arch;
  }
  if (sim::config.arch == nullptr) return fail(HP_INVALID_ARGUMENT, "there is no level '%s'", words[1]);
  std::ifstream source(words[2]);
  const std::string text((std::istreambuf_iterator<char>(source)), std::istreambuf_iterator<char>());
  sim::find_toolchain();
  std::string library;
  if (HpStatus status = sim::compile_source(text.c_str(), "", &library)) return status;
  std::ofstream(words[3], std::ios::binary) << library;
  return 0;
}
