// Operators as the core sees them: a name, the kernel that serves it, counters, and the point that observers listen on.
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

// Bits of Operator::notes: tiers that rules deny it (rules.h), and whether a tool watches it.
constexpr uint8_t denied_bit(Tier tier) { return static_cast<uint8_t>(1u << static_cast<int>(tier)); }
constexpr uint8_t kDeniedKernels = denied_bit(Tier::kVendor) | denied_bit(Tier::kPortable);
constexpr uint8_t kDeniedAny = (1u << kNumTiers) - 1;
constexpr uint8_t kWatched = 1u << kNumTiers;

// Threads that write down what they launch (recorder.h). For all others the cost of asking is one relaxed load.
extern std::atomic<int> recording_threads;
inline bool recording() { return recording_threads.load(std::memory_order_relaxed) != 0; }
struct Operator;
void note_count(Operator& op, Tier tier);

// One framework operator, such as aten::add.Tensor. Interned: the same name gives the same object, which never dies.
struct Operator {
  const std::string name;
  std::array<std::atomic<uint64_t>, kNumTiers> calls{};
  std::atomic<uint8_t> notes{0};  // all that a call knows of rules and tools; zero when there are none
  std::atomic<bool> warned{false};
  std::atomic<void*> decomposition{nullptr};  // the adapter's own record, once it was asked for
  std::atomic<uint64_t> copied_bytes{0};      // between device and host, by the CPU tier
  std::atomic<uint64_t> cpu_nanoseconds{0};   // in the CPU tier
  std::atomic<bool> bound{false};             // only the device has it: rules do not apply

  explicit Operator(std::string name) : name(std::move(name)) {}
  void count(Tier tier) {
    calls[static_cast<int>(tier)].fetch_add(1, std::memory_order_relaxed);
    if (__builtin_expect(recording(), 0)) note_count(*this, tier);
  }
  bool allows(Tier tier) const { return (notes.load(std::memory_order_relaxed) & denied_bit(tier)) == 0; }
  bool allows_kernels() const { return (notes.load(std::memory_order_relaxed) & kDeniedKernels) != kDeniedKernels; }
  bool watched() const { return (notes.load(std::memory_order_relaxed) & kWatched) != 0; }
  void bind();  // from now on, and for what rules said already
  static Operator& intern(const std::string& name);
};

// {operator: {tier: calls}}, only what was called.
std::map<std::string, std::map<std::string, uint64_t>> counters();
void reset_counters();

// What the CPU tier cost: {operator: {bytes copied, nanoseconds}}, only what it served.
std::map<std::string, std::pair<uint64_t, uint64_t>> cpu_costs();

// Counts the time that the CPU tier spends on a call, however it ends.
class CpuCost {
 public:
  explicit CpuCost(Operator& op) : op_(op), start_(std::chrono::steady_clock::now()) {}
  ~CpuCost() {
    const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start_;
    op_.cpu_nanoseconds.fetch_add(static_cast<uint64_t>(spent.count()), std::memory_order_relaxed);
  }
  CpuCost(const CpuCost&) = delete;

 private:
  Operator& op_;
  const std::chrono::steady_clock::time_point start_;
};

// Asks the rules again about every operator.
void refresh_notes();

// Another number whenever another kernel or tier than before may serve a call.
uint64_t settings_version();

// The operator that this thread is in; what HpHost::operator_name tells plug-ins.
const Operator* current_operator();
class OperatorScope {
 public:
  explicit OperatorScope(const Operator& op);
  ~OperatorScope();
  OperatorScope(const OperatorScope&) = delete;

 private:
  const Operator* previous_;
};

// What observers are told. `call` is the adapter's own description of the arguments, opaque here.
struct CallEvent {
  const Operator& op;
  Tier tier;
  bool begin;  // before the call, or after it
  void* call;
};
using ObserverFunction = void (*)(void* context, const CallEvent& event);

// The cost of the point when nobody listens: one relaxed load.
extern std::atomic<int> observer_count;
inline bool observed() { return observer_count.load(std::memory_order_relaxed) != 0; }
int add_observer(ObserverFunction function, void* context);
void remove_observer(int id);
void notify(const CallEvent& event);

// Beside the contract's flags: the function is Python's, and gets its tensors as objects.
constexpr uint64_t kPythonKernel = uint64_t{1} << 63;

// A kernel of a standard operator on one runtime. The adapter keeps a reference; the registry may change what it points
// to at any time (a Python function put in its place, or taken away), so that a call reads it once.
struct Kernel {
  HpKernelFunction function;
  void* self;  // TVM-FFI function object, or null for an exported symbol
  uint64_t flags;
  const char* name;
};

class KernelSlot {
 public:
  const std::string name;
  const Kernel* get() const { return kernel_.load(std::memory_order_acquire); }
  explicit KernelSlot(std::string name) : name(std::move(name)) {}

 private:
  friend class KernelRegistry;
  std::atomic<const Kernel*> kernel_{nullptr};
  std::vector<const Kernel*> stack_;  // the plug-in's own below, overrides above
};

class KernelRegistry {
 public:
  // The slot for a standard operator; the plug-in's own kernel is looked up on first use.
  static KernelSlot& slot(Runtime& runtime, const std::string& name);
  // Puts a TVM-FFI function object on top; returns a token for `remove`. Takes a reference on the object.
  static int64_t override_kernel(Runtime& runtime, const std::string& name, void* function_object, uint64_t flags);
  static void remove_override(Runtime& runtime, int64_t token);
};

}  // namespace hp
