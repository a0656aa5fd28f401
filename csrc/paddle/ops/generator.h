// Random-number state from the device's Paddle generator (seeded by paddle.seed), whose offset counts Philox blocks.
#pragma once

#include "core/runtime/philox.h"
#include "dispatch/call.h"
#include "runtime/graphs.h"

namespace hp::paddle_adapter {

// Advances the generator by `blocks` and returns its previous state. A nonzero `seed` is used instead of the generator:
// the call then gives the same numbers each time.
inline PhiloxState take_blocks(const Call& call, uint64_t blocks, int64_t seed = 0) {
  if (seed != 0) return {static_cast<uint64_t>(seed), 0};
  phi::Generator* const generator = call.context.GetGenerator();
  const auto [generator_seed, offset] = generator->IncrementOffset(blocks);
  const PhiloxState state{generator_seed, offset};
  Stream& stream = stream_of(call.context);
  if (stream.capture() != nullptr) note_captured_draw(stream, generator, state, blocks);
  return state;
}

}  // namespace hp::paddle_adapter
