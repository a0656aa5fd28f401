// Where random numbers begin: Paddle's generator of the device, which paddle.seed sets, counts in our blocks.
#pragma once

#include "../core/philox.h"
#include "call.h"

namespace hp::paddle_adapter {

// Takes blocks of the generator. A seed of its own that is not 0 makes a call give the same numbers each time.
inline PhiloxState take_blocks(const Call& call, uint64_t blocks, int64_t seed = 0) {
  if (seed != 0) return {static_cast<uint64_t>(seed), 0};
  const auto [from, offset] = call.context.GetGenerator()->IncrementOffset(blocks);
  return {from, offset};
}

}  // namespace hp::paddle_adapter
