// What the two ways of attention share, and the one in a single kernel (flash.cpp).
#pragma once

#include <dlpack/dlpack.h>

#include <atomic>
#include <cmath>
#include <cstdint>

#include "host.h"
#include "kernel.h"

namespace nv {

// As attention_common.inc has it.
struct Dropping {
  uint64_t seed, start;
  unsigned below;
  float factor;

  // The arguments dropout, seed and offset begin at `index`.
  Dropping(const Call& call, int32_t index) {
    const double p = call.real(index);
    seed = static_cast<uint64_t>(call.integer(index + 1));
    start = static_cast<uint64_t>(call.integer(index + 2));
    below = static_cast<unsigned>(std::llround(p * 65536));
    factor = static_cast<float>(p == 1 ? 0 : 1 / (1 - p));
  }
  // From that row on, of all queries.
  Dropping from(int64_t row, int64_t keys) const {
    Dropping other = *this;
    other.start += static_cast<uint64_t>(row * ((keys + 7) / 8));
    return other;
  }
};

// One kernel for the forward pass and three for the backward pass, without scores in memory: 16-bit floats, no mask,
// heads of up to 128 elements, a multiple of 8, a positive scale.
struct Flash {
  const DLTensor *query, *key, *value;
  int64_t causal;
  double scale;

  // Whether these tensors are such ones, their device has what it takes, and flash attention is allowed.
  bool takes(const DLTensor* mask, std::initializer_list<const DLTensor*> others) const;
  // 0, or what was raised; NotImplementedError before anything is queued.
  int forward(const DLTensor* out, const DLTensor* lse, const Dropping& dropping) const;
  int backward(const DLTensor* grad_query, const DLTensor* grad_key, const DLTensor* grad_value, const DLTensor* grad,
               const DLTensor* out, const DLTensor* lse, const Dropping& dropping) const;
};
extern std::atomic<bool> allow_flash;

}  // namespace nv
