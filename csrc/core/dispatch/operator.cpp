#include "core/dispatch/operator.h"

#include <tvm/ffi/c_api.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "core/dispatch/tier_rules.h"
#include "core/runtime/error.h"
#include "core/runtime/runtime.h"

namespace hp {
namespace {

// Leaked on purpose: threads use operators until the process ends.
struct OperatorTable {
  std::mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<Operator>> operators;
};
OperatorTable& operator_table() {
  static auto* table = new OperatorTable;
  return *table;
}

thread_local const Operator* active_operator = nullptr;

struct Observer {
  int id;
  ObserverFunction function;
  void* context;
};
struct ObserverTable {
  std::shared_mutex mutex;
  std::vector<Observer> observers;
  int next_id = 1;
};
ObserverTable& observer_table() {
  static auto* table = new ObserverTable;
  return *table;
}

struct Override {
  int64_t token;
  KernelSlot* slot;
  const Kernel* kernel;
};
struct RegistryTable {
  std::mutex mutex;
  std::map<std::pair<Runtime*, std::string>, std::unique_ptr<KernelSlot>> slots;
  std::vector<Override> overrides;
  int64_t next_token = 1;
};
RegistryTable& registry_table() {
  static auto* table = new RegistryTable;
  return *table;
}

}  // namespace

std::atomic<int> observer_count{0};

static std::atomic<uint64_t> version{0};
uint64_t settings_version() { return version.load(std::memory_order_relaxed); }

const char* tier_name(Tier tier) {
  static const char* const names[kNumTiers] = {"vendor", "portable", "decomposition", "cpu"};
  return names[static_cast<int>(tier)];
}

Operator& Operator::intern(const std::string& name) {
  OperatorTable& table = operator_table();
  std::lock_guard<std::mutex> lock(table.mutex);
  auto& entry = table.operators[name];
  if (!entry) {
    entry = std::make_unique<Operator>(name);
    entry->call_flags.store(call_flags_for(name), std::memory_order_relaxed);
  }
  return *entry;
}

void refresh_call_flags() {
  OperatorTable& table = operator_table();
  std::lock_guard<std::mutex> lock(table.mutex);
  for (const auto& [name, op] : table.operators) {
    op->call_flags.store(call_flags_for(name), std::memory_order_relaxed);
  }
  version.fetch_add(1, std::memory_order_relaxed);
}

std::map<std::string, std::pair<uint64_t, uint64_t>> cpu_costs() {
  OperatorTable& table = operator_table();
  std::lock_guard<std::mutex> lock(table.mutex);
  std::map<std::string, std::pair<uint64_t, uint64_t>> result;
  for (const auto& [name, op] : table.operators) {
    const uint64_t spent = op->cpu_nanoseconds.load(std::memory_order_relaxed);
    if (spent != 0) result[name] = {op->copied_bytes.load(std::memory_order_relaxed), spent};
  }
  return result;
}

std::map<std::string, std::map<std::string, uint64_t>> counters() {
  OperatorTable& table = operator_table();
  std::lock_guard<std::mutex> lock(table.mutex);
  std::map<std::string, std::map<std::string, uint64_t>> result;
  for (const auto& [name, op] : table.operators) {
    for (int tier = 0; tier < kNumTiers; ++tier) {
      const uint64_t calls = op->calls[tier].load(std::memory_order_relaxed);
      if (calls != 0) result[name][tier_name(static_cast<Tier>(tier))] = calls;
    }
  }
  return result;
}

void reset_counters() {
  OperatorTable& table = operator_table();
  std::lock_guard<std::mutex> lock(table.mutex);
  for (const auto& entry : table.operators) {
    for (auto& calls : entry.second->calls) calls.store(0, std::memory_order_relaxed);
    entry.second->copied_bytes.store(0, std::memory_order_relaxed);
    entry.second->cpu_nanoseconds.store(0, std::memory_order_relaxed);
  }
}

const Operator* current_operator() { return active_operator; }

OperatorScope::OperatorScope(const Operator& op) : previous_(active_operator) { active_operator = &op; }
OperatorScope::~OperatorScope() { active_operator = previous_; }

int add_observer(ObserverFunction function, void* context) {
  ObserverTable& table = observer_table();
  std::unique_lock<std::shared_mutex> lock(table.mutex);
  table.observers.push_back({table.next_id, function, context});
  observer_count.store(static_cast<int>(table.observers.size()), std::memory_order_relaxed);
  return table.next_id++;
}

void remove_observer(int id) {
  ObserverTable& table = observer_table();
  std::unique_lock<std::shared_mutex> lock(table.mutex);
  auto& list = table.observers;
  list.erase(std::remove_if(list.begin(), list.end(), [&](const Observer& o) { return o.id == id; }), list.end());
  observer_count.store(static_cast<int>(list.size()), std::memory_order_relaxed);
}

void notify(const CallEvent& event) {
  // Copied, so that observers run without our lock: they may add or remove observers, or take the GIL.
  std::vector<Observer> observers;
  {
    std::shared_lock<std::shared_mutex> lock(observer_table().mutex);
    observers = observer_table().observers;
  }
  for (const Observer& observer : observers) observer.function(observer.context, event);
}

KernelSlot& KernelRegistry::slot(Runtime& runtime, const std::string& name) {
  RegistryTable& table = registry_table();
  std::lock_guard<std::mutex> lock(table.mutex);
  auto& entry = table.slots[{&runtime, name}];
  if (!entry) {
    entry = std::make_unique<KernelSlot>(name);
    const Plugin::Kernel own = runtime.plugin->find_kernel(name);
    if (own.function != nullptr) {
      entry->stack_.push_back(new Kernel{own.function, nullptr, own.flags, entry->name.c_str()});
      entry->kernel_.store(entry->stack_.back(), std::memory_order_release);
    }
  }
  return *entry;
}

int64_t KernelRegistry::override_kernel(Runtime& runtime, const std::string& name, void* function_object,
                                        uint64_t flags) {
  KernelSlot& target = slot(runtime, name);
  const auto* cell =
      reinterpret_cast<const TVMFFIFunctionCell*>(static_cast<const char*>(function_object) + sizeof(TVMFFIObject));
  // Neither the kernel nor its function object is ever freed: a running call may still use a removed override.
  TVMFFIObjectIncRef(function_object);
  auto* kernel =
      new Kernel{reinterpret_cast<HpKernelFunction>(cell->safe_call), function_object, flags, target.name.c_str()};
  RegistryTable& table = registry_table();
  std::lock_guard<std::mutex> lock(table.mutex);
  target.stack_.push_back(kernel);
  target.kernel_.store(kernel, std::memory_order_release);
  version.fetch_add(1, std::memory_order_relaxed);
  table.overrides.push_back({table.next_token, &target, kernel});
  return table.next_token++;
}

void KernelRegistry::remove_override(Runtime&, int64_t token) {
  RegistryTable& table = registry_table();
  std::lock_guard<std::mutex> lock(table.mutex);
  auto found =
      std::find_if(table.overrides.begin(), table.overrides.end(), [&](const Override& o) { return o.token == token; });
  if (found == table.overrides.end()) return;
  KernelSlot& target = *found->slot;
  auto& stack = target.stack_;
  stack.erase(std::remove(stack.begin(), stack.end(), found->kernel), stack.end());
  target.kernel_.store(stack.empty() ? nullptr : stack.back(), std::memory_order_release);
  version.fetch_add(1, std::memory_order_relaxed);
  table.overrides.erase(found);
}

}  // namespace hp
