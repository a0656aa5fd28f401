// Rules on which tiers may serve an operator, and which operators tools intercept. Evaluated for every operator when
// they change: a call reads only the bits in Operator::call_flags.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

// `pattern` is a regular expression that must match the whole name; namespace and overload are optional:
// "aten::add.out", "add.out", "aten::add", "add".
struct TierRule {
  std::string pattern;
  uint8_t denied;  // denied_bit of each denied tier; the last matching rule wins
};

// Replaces all rules, for all threads from their next call. If a pattern is invalid, throws Error and changes nothing.
void set_rules(const std::vector<TierRule>& rules);
// Whether any rule is set.
bool rules_in_force();

// Intercepts the operators that match any of these patterns, and no others.
void set_intercepted(const std::vector<std::string>& patterns);
// Whether any pattern is set.
bool any_intercepted();

// The Operator::call_flags for an operator of this name.
uint8_t call_flags_for(const std::string& name);

}  // namespace hp
