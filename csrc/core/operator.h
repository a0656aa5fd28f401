// Operators as the core sees them: a name, the kernel that serves it, counters, and the point that observers listen on.
#pragma once

#include <array>
#include <atomic>
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

// One framework operator, such as aten::add.Tensor. Interned: the same name gives the same object, which never dies.
struct Operator {
  const std::string name;
  std::array<std::atomic<uint64_t>, kNumTiers> calls{};
  std::atomic<bool> warned{false};
  std::atomic<void*> decomposition{nullptr};  // the adapter's own record, once it was asked for

  explicit Operator(std::string name) : name(std::move(name)) {}
  void count(Tier tier) { calls[static_cast<int>(tier)].fetch_add(1, std::memory_order_relaxed); }
  static Operator& intern(const std::string& name);
};

// {operator: {tier: calls}}, only what was called.
std::map<std::string, std::map<std::string, uint64_t>> counters();
void reset_counters();

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
