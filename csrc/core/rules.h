// Which tiers may serve an operator, and which operators tools watch. Settled when the rules change, for every operator
// there is: a call only looks at its operator's own bits (Operator::notes).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

// `pattern` is a regular expression for a whole name, with its namespace or without, with its overload or without:
// "aten::add.out", "add.out", "aten::add", "add".
struct Rule {
  std::string pattern;
  uint8_t denied;  // a bit for each tier that may not serve (denied_bit); the last rule that matches counts
};

// In force for every thread from the next call on. Throws Error, naming the pattern, before it changes anything.
void set_rules(const std::vector<Rule>& rules);
// Whether any rule is in force.
bool rules_in_force();

// Operators that match any of these are marked as watched.
void set_watched(const std::vector<std::string>& patterns);
// Whether any operator is.
bool any_watched();

// What the rules say about an operator of that name.
uint8_t notes_for(const std::string& name);

}  // namespace hp
