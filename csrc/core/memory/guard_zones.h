// Guard zones: memory before and after each block, filled with a pattern and checked for writes. A debugging tool:
// every allocation queues two copies, and every free waits for its stream.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hp {

class Device;
class Stream;

constexpr size_t kGuardBytes = 4096;  // on each side of a block; a multiple of the allocator's alignment

struct GuardDamage {
  std::string device, op;  // `op`: the operator during which it was found; empty outside operators
  uint64_t address;        // of the block's user
  size_t bytes;            // requested by the user
  int64_t first, last;     // offsets of the written bytes from `address`
};

extern std::atomic<bool> guard_zones;
inline bool guard_zones_enabled() { return guard_zones.load(std::memory_order_relaxed); }

// The zones of one block, which starts at `base` and holds `size` bytes. The user's `bytes` start at base +
// kGuardBytes.
struct GuardZones {
  Device& device;
  char* base;
  size_t size, bytes;

  size_t back_bytes() const;
  void fill(Stream& stream) const;
  // Waits for the stream and reports writes to the zones; restores the pattern if there were any.
  void check(Stream& stream) const;
};

// Returns the damage found since the last call.
std::vector<GuardDamage> take_guard_damage();

}  // namespace hp
