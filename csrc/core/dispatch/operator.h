// Framework operators with call counters and flags, call observers, and the registry of vendor kernels.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hardpoint/plugin.h"

namespace hp {

class Runtime;

enum class Tier : int { kVendor = 0, kPortable = 1, kDecomposition = 2, kCpu = 3 };
constexpr int kNumTiers = 4;
const char* tier_name(Tier tier);

// Bits of Operator::call_flags: the tiers that rules deny (tier_rules.h), and whether a tool intercepts the operator.
constexpr uint8_t denied_bit(Tier tier) { return static_cast<uint8_t>(1u << static_cast<int>(tier)); }
constexpr uint8_t kDeniedKernels = denied_bit(Tier::kVendor) | denied_bit(Tier::kPortable);
constexpr uint8_t kDeniedAny = (1u << kNumTiers) - 1;
constexpr uint8_t kIntercepted = 1u << kNumTiers;

// Number of threads with a Recorder (recorder.h). Without any, the check costs one relaxed load.
extern std::atomic<int> recording_threads;
inline bool recording() { return recording_threads.load(std::memory_order_relaxed) != 0; }
struct Operator;
void record_count(Operator& op, Tier tier);

// One framework operator, such as aten::add.Tensor. Interned: one object per name, never destroyed.
struct Operator {
  const std::string name;
  std::array<std::atomic<uint64_t>, kNumTiers> calls{};
  std::atomic<uint8_t> call_flags{0};  // kDenied* and kIntercepted bits; 0 without rules and tools
  std::atomic<bool> warned{false};
  std::atomic<void*> decomposition{nullptr};  // owned by the adapter; set on first use
  std::atomic<uint64_t> copied_bytes{0};      // between device and host, by the CPU tier
  std::atomic<uint64_t> cpu_nanoseconds{0};   // in the CPU tier

  explicit Operator(std::string name) : name(std::move(name)) {}
  void count(Tier tier) {
    calls[static_cast<int>(tier)].fetch_add(1, std::memory_order_relaxed);
    if (__builtin_expect(recording(), 0)) record_count(*this, tier);
  }
  bool allows(Tier tier) const { return (call_flags.load(std::memory_order_relaxed) & denied_bit(tier)) == 0; }
  bool allows_kernels() const {
    return (call_flags.load(std::memory_order_relaxed) & kDeniedKernels) != kDeniedKernels;
  }
  bool intercepted() const { return (call_flags.load(std::memory_order_relaxed) & kIntercepted) != 0; }
  static Operator& intern(const std::string& name);
};

// {operator: {tier: calls}}, without zeros.
std::map<std::string, std::map<std::string, uint64_t>> counters();
void reset_counters();

// Cost of the CPU tier: {operator: {bytes copied, nanoseconds}}, only for operators it served.
std::map<std::string, std::pair<uint64_t, uint64_t>> cpu_costs();

// Adds the time of a CPU-tier call to its operator, also when the call throws.
class CpuTierTimer {
 public:
  explicit CpuTierTimer(Operator& op) : op_(op), start_(std::chrono::steady_clock::now()) {}
  ~CpuTierTimer() {
    const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start_;
    op_.cpu_nanoseconds.fetch_add(static_cast<uint64_t>(spent.count()), std::memory_order_relaxed);
  }
  CpuTierTimer(const CpuTierTimer&) = delete;

 private:
  Operator& op_;
  const std::chrono::steady_clock::time_point start_;
};

// Recomputes call_flags of every operator. Called when rules or interceptions change.
void refresh_call_flags();

// Changes whenever a call may be served by a different kernel or tier than before.
uint64_t settings_version();

// The operator that this thread is executing, reported by HpHost::operator_name; null outside operators.
const Operator* current_operator();
class OperatorScope {
 public:
  explicit OperatorScope(const Operator& op);
  ~OperatorScope();
  OperatorScope(const OperatorScope&) = delete;

 private:
  const Operator* previous_;
};

// Passed to observers. `call` is the adapter's description of the arguments, opaque to the core; may be null.
struct CallEvent {
  const Operator& op;
  Tier tier;
  bool begin;  // true before the call, false after it
  void* call;
};
using ObserverFunction = void (*)(void* context, const CallEvent& event);

// Without observers, a call pays one relaxed load.
extern std::atomic<int> observer_count;
inline bool observed() { return observer_count.load(std::memory_order_relaxed) != 0; }
int add_observer(ObserverFunction function, void* context);
void remove_observer(int id);
void notify(const CallEvent& event);

// Kernel flag beyond those of plugin.h: a Python function, which takes tensors as TVM-FFI objects.
constexpr uint64_t kPythonKernel = uint64_t{1} << 63;

// One kernel of a standard operator on one runtime. Never destroyed: a running call may still use a removed override.
struct Kernel {
  HpKernelFunction function;
  void* self;  // TVM-FFI function object, or null for an exported symbol
  uint64_t flags;
  const char* name;
};

// The current kernel of a standard operator. Never destroyed, so adapters keep references. Overrides may change the
// kernel at any time: read get() once per call.
class KernelSlot {
 public:
  const std::string name;
  const Kernel* get() const { return kernel_.load(std::memory_order_acquire); }
  explicit KernelSlot(std::string name) : name(std::move(name)) {}

 private:
  friend class KernelRegistry;
  std::atomic<const Kernel*> kernel_{nullptr};
  std::vector<const Kernel*> stack_;  // the plug-in's kernel first, then overrides
};

class KernelRegistry {
 public:
  // The slot of a standard operator; looks up the plug-in's kernel on first use.
  static KernelSlot& slot(Runtime& runtime, const std::string& name);
  // Overrides the kernel with a TVM-FFI function object, referenced forever. Returns a token for remove_override.
  static int64_t override_kernel(Runtime& runtime, const std::string& name, void* function_object, uint64_t flags);
  static void remove_override(Runtime& runtime, int64_t token);
};

}  // namespace hp
