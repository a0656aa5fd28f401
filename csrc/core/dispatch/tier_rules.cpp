#include "core/dispatch/tier_rules.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <regex>

#include "core/dispatch/operator.h"
#include "core/dispatch/write_watch.h"
#include "core/runtime/error.h"

namespace hp {
namespace {

struct Compiled {
  std::regex pattern;
  uint8_t denied;
};

// Leaked on purpose, like the operator table.
struct RuleTable {
  std::mutex mutex;
  std::vector<Compiled> rules;
  std::vector<std::regex> intercepted;
};
RuleTable& rule_table() {
  static auto* table = new RuleTable;
  return *table;
}
std::atomic<bool> in_force{false}, intercepting{false};
std::atomic<int> write_watches{0};
// A bit of Operator::call_flags beside kIntercepted: a tool asked for it, not only the write watch.
constexpr uint8_t kByTool = kIntercepted << 1;

std::regex compile(const std::string& pattern) {
  try {
    return std::regex(pattern, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    throw Error(HP_INVALID_ARGUMENT, "'" + pattern + "' is not a valid regular expression: " + error.what());
  }
}

// The forms of an operator name that a pattern may match.
class Spellings {
 public:
  explicit Spellings(const std::string& full) {
    const size_t space = full.find("::");
    const std::string bare = space == std::string::npos ? full : full.substr(space + 2);
    const size_t dot = full.find('.');
    spellings_ = {full, bare, full.substr(0, dot), bare.substr(0, bare.find('.'))};
  }
  bool match(const std::regex& pattern) const {
    return std::any_of(spellings_.begin(), spellings_.end(),
                       [&](const std::string& spelling) { return std::regex_match(spelling, pattern); });
  }

 private:
  std::array<std::string, 4> spellings_;
};

}  // namespace

void set_rules(const std::vector<TierRule>& rules) {
  std::vector<Compiled> compiled;
  for (const TierRule& rule : rules) compiled.push_back({compile(rule.pattern), rule.denied});
  {
    RuleTable& table = rule_table();
    std::lock_guard<std::mutex> lock(table.mutex);
    table.rules = std::move(compiled);
    in_force.store(!table.rules.empty(), std::memory_order_relaxed);
  }
  refresh_call_flags();
}

bool rules_in_force() { return in_force.load(std::memory_order_relaxed); }

void set_intercepted(const std::vector<std::string>& patterns) {
  std::vector<std::regex> compiled;
  for (const std::string& pattern : patterns) compiled.push_back(compile(pattern));
  {
    RuleTable& table = rule_table();
    std::lock_guard<std::mutex> lock(table.mutex);
    table.intercepted = std::move(compiled);
    intercepting.store(!table.intercepted.empty(), std::memory_order_relaxed);
  }
  refresh_call_flags();
}

bool any_intercepted() { return intercepting.load(std::memory_order_relaxed); }

uint8_t call_flags_for(const std::string& name) {
  RuleTable& table = rule_table();
  std::lock_guard<std::mutex> lock(table.mutex);
  const uint8_t write_watch = write_watches.load(std::memory_order_relaxed) != 0 ? kIntercepted : 0;
  if (table.rules.empty() && table.intercepted.empty()) return write_watch;
  const Spellings spellings(name);
  uint8_t call_flags = 0;
  for (const Compiled& rule : table.rules) {
    if (spellings.match(rule.pattern)) call_flags = rule.denied;
  }
  for (const std::regex& pattern : table.intercepted) {
    if (spellings.match(pattern)) call_flags |= kIntercepted | kByTool;
  }
  return call_flags | write_watch;
}

namespace {
void add_write_watch(int change) {
  static auto* mutex = new std::mutex;  // flags must be those of the last change
  std::lock_guard<std::mutex> lock(*mutex);
  const int before = write_watches.fetch_add(change, std::memory_order_relaxed);
  if (before == 0 || before + change == 0) refresh_call_flags();
}
}  // namespace

void begin_write_watch() { add_write_watch(1); }
void end_write_watch() { add_write_watch(-1); }

bool intercepted_by_tool(const Operator& op) { return (op.call_flags.load(std::memory_order_relaxed) & kByTool) != 0; }

}  // namespace hp
