// Philox 4x32-10, the counter-based generator of every random operator. Gives the same numbers on every device.
#pragma once

#include <array>
#include <cstdint>

namespace hp {

using PhiloxBlock = std::array<uint32_t, 4>;

inline PhiloxBlock philox4x32(uint64_t seed, uint64_t counter_low, uint64_t counter_high) {
  constexpr uint32_t kMul0 = 0xD2511F53, kMul1 = 0xCD9E8D57, kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  uint32_t c0 = static_cast<uint32_t>(counter_low), c1 = static_cast<uint32_t>(counter_low >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_high), c3 = static_cast<uint32_t>(counter_high >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kMul0) * c0, p1 = static_cast<uint64_t>(kMul1) * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0, n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return {c0, c1, c2, c3};
}

// State of one generator; `offset` counts blocks. advance(n) reserves n blocks and returns the offset of the first.
struct PhiloxState {
  uint64_t seed = 67280421310721ULL;
  uint64_t offset = 0;

  void reseed(uint64_t new_seed) {
    seed = new_seed;
    offset = 0;
  }
  uint64_t advance(uint64_t blocks) {
    const uint64_t first = offset;
    offset += blocks;
    return first;
  }
};

}  // namespace hp
