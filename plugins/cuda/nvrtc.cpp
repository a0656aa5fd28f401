#include "nvrtc.h"

#include <locale.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "dynamic_library.h"
#include "host.h"

namespace nv {
namespace {

using Program = struct NvrtcProgram*;

struct Nvrtc {
  int (*version)(int*, int*);
  int (*num_archs)(int*);
  int (*archs)(int*);
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile)(Program, int, const char* const*);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*cubin_size)(Program, size_t*);
  int (*cubin)(Program, char*);
  int (*ptx_size)(Program, size_t*);
  int (*ptx)(Program, char*);
  int (*destroy)(Program*);
  const char* (*error)(int);

  bool found = false;
  std::string reason;
  std::vector<int> supported;
};

const Nvrtc& nvrtc() {
  static const Nvrtc& opened = *[] {
    auto* n = new Nvrtc{};
    const Symbol symbols[] = {{"nvrtcVersion", reinterpret_cast<void**>(&n->version)},
                              {"nvrtcGetNumSupportedArchs", reinterpret_cast<void**>(&n->num_archs)},
                              {"nvrtcGetSupportedArchs", reinterpret_cast<void**>(&n->archs)},
                              {"nvrtcCreateProgram", reinterpret_cast<void**>(&n->create)},
                              {"nvrtcCompileProgram", reinterpret_cast<void**>(&n->compile)},
                              {"nvrtcGetProgramLogSize", reinterpret_cast<void**>(&n->log_size)},
                              {"nvrtcGetProgramLog", reinterpret_cast<void**>(&n->log)},
                              {"nvrtcGetCUBINSize", reinterpret_cast<void**>(&n->cubin_size)},
                              {"nvrtcGetCUBIN", reinterpret_cast<void**>(&n->cubin)},
                              {"nvrtcGetPTXSize", reinterpret_cast<void**>(&n->ptx_size)},
                              {"nvrtcGetPTX", reinterpret_cast<void**>(&n->ptx)},
                              {"nvrtcDestroyProgram", reinterpret_cast<void**>(&n->destroy)},
                              {"nvrtcGetErrorString", reinterpret_cast<void**>(&n->error)},
                              {nullptr, nullptr}};
    static const char* const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", nullptr};
    n->found = open_library(names, symbols, &n->reason);
    int count = 0;
    if (n->found && n->num_archs(&count) == 0) {
      n->supported.resize(static_cast<size_t>(count));
      if (count > 0) n->archs(n->supported.data());
    }
    return n;
  }();
  return opened;
}

std::string log_of(const Nvrtc& n, Program program) {
  size_t size = 0;
  if (n.log_size(program, &size) != 0 || size == 0) return "";
  std::string text(size, '\0');
  n.log(program, &text[0]);
  return text.c_str();
}

// NVRTC 12 changes the locale of the calling thread, after which Python would open files as ASCII.
class LocaleGuard {
 public:
  LocaleGuard() = default;
  ~LocaleGuard() { uselocale(before_); }
  LocaleGuard(const LocaleGuard&) = delete;

 private:
  const locale_t before_ = uselocale(nullptr);
};

}  // namespace

std::string compiler_version() {
  const Nvrtc& n = nvrtc();
  int major = 0, minor = 0;
  if (!n.found || n.version(&major, &minor) != 0) return "none";
  return std::to_string(major) + "." + std::to_string(minor);
}

HpStatus compile_source(int capability, const char* source, const char* options, std::string* binary) {
  const Nvrtc& n = nvrtc();
  if (!n.found)
    return host->fail(HP_NOT_SUPPORTED,
                      "NVRTC, the kernel compiler, cannot be opened: %s. Install it (python -m pip install "
                      "nvidia-cuda-nvrtc), or put its folder into HARDPOINT_CUDA_PATH",
                      n.reason.c_str());
  int target = 0;
  for (const int arch : n.supported)
    if (arch <= capability) target = std::max(target, arch);
  if (target == 0)
    return host->fail(HP_NOT_SUPPORTED, "NVRTC %s does not support compute capability %d.%d",
                      compiler_version().c_str(), capability / 10, capability % 10);
  // No implicit fused multiply-add: results are then the same as on other devices.
  std::vector<std::string> arguments = {
      std::string("--gpu-architecture=") + (target == capability ? "sm_" : "compute_") + std::to_string(target),
      "--fmad=false", "--disable-warnings"};
  std::istringstream more(options);
  for (std::string argument; more >> argument;) arguments.push_back(argument);
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());

  const LocaleGuard locale_guard;
  Program program = nullptr;
  int result = n.create(&program, source, "hardpoint.cu", 0, nullptr, nullptr);
  if (result != 0) return host->fail(HP_ERROR, "NVRTC: %s", n.error(result));
  result = n.compile(program, static_cast<int>(pointers.size()), pointers.data());
  HpStatus status = HP_OK;
  if (result != 0) {
    status = host->fail(HP_ERROR, "NVRTC: %s\n%s", n.error(result), log_of(n, program).c_str());
  } else {
    const bool machine_code = target == capability;
    size_t size = 0;
    result = machine_code ? n.cubin_size(program, &size) : n.ptx_size(program, &size);
    binary->resize(size);
    if (result == 0) result = machine_code ? n.cubin(program, &(*binary)[0]) : n.ptx(program, &(*binary)[0]);
    if (result != 0) status = host->fail(HP_ERROR, "NVRTC: %s", n.error(result));
  }
  n.destroy(&program);
  return status;
}

}  // namespace nv
