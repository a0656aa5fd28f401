#include "compiler/cpu_arch.h"

#include <cstring>
#include <iterator>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace sim {

namespace {

const CpuArch archs[] = {
#if defined(__x86_64__)
    {"x86-64", "c-x86-64", "-march=x86-64"},
    {"x86-64-v3", "c-x86-64-v3", "-march=x86-64-v3"},
    {"x86-64-v4", "c-x86-64-v4", "-march=x86-64-v4"},
#elif defined(__aarch64__)
    {"aarch64", "c-aarch64", "-march=armv8-a"},
#else
#error "sim runs on x86-64 and aarch64"
#endif
};

#if defined(__x86_64__)
// Features of x86-64-v2 and v3 that __builtin_cpu_supports does not know in every compiler.
bool has_movbe_f16c_lzcnt() {
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_MOVBE) || !(ecx & bit_F16C)) return false;
  return __get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) && (ecx & bit_LZCNT);
}
#endif

// Number of levels this CPU supports, at least 1.
size_t num_runnable() {
#if defined(__x86_64__)
#define HAS(feature) __builtin_cpu_supports(feature)
  if (!(HAS("avx") && HAS("avx2") && HAS("fma") && HAS("bmi") && HAS("bmi2") && has_movbe_f16c_lzcnt())) return 1;
  if (!(HAS("avx512f") && HAS("avx512bw") && HAS("avx512cd") && HAS("avx512dq") && HAS("avx512vl"))) return 2;
#undef HAS
#endif
  return std::size(archs);
}

}  // namespace

const std::vector<CpuArch>& all_cpu_archs() {
  static const auto* all = new std::vector<CpuArch>(std::begin(archs), std::end(archs));
  return *all;
}

const CpuArch* best_cpu_arch() { return &archs[num_runnable() - 1]; }

const CpuArch* find_cpu_arch(const char* name) {
  for (size_t i = 0; i < num_runnable(); ++i)
    if (strcmp(archs[i].name, name) == 0) return &archs[i];
  return nullptr;
}

std::string runnable_cpu_archs() {
  std::string names = archs[0].name;
  for (size_t i = 1; i < num_runnable(); ++i) names += std::string(", ") + archs[i].name;
  return names;
}

}  // namespace sim
