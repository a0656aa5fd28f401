// The signature of a collective call, which must match on all ranks.
#pragma once

#include <cstdint>
#include <string>

#include "hardpoint/plugin.h"

namespace sim {

enum class CollectiveKind : uint32_t { all_reduce, reduce, reduce_scatter, broadcast, all_gather, all_to_all };

// Stored in shared memory.
struct Signature {
  uint64_t number;  // starts at 1 for each communicator
  uint64_t size;    // elements for reductions, otherwise bytes
  CollectiveKind kind;
  HpElement element;
  HpReduction reduction;
  int32_t root;

  bool reduces() const { return kind <= CollectiveKind::reduce_scatter; }
  bool matches(const Signature& other) const;
  const char* name() const;
  // "all_reduce #5"
  std::string label() const { return name() + std::string(" #") + std::to_string(number); }
  // "all_reduce of 8 float32 (sum)"
  std::string text() const;
};

}  // namespace sim
