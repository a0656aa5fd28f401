// Shared by both attention implementations, and the interface of the fused one (flash.cpp).
#pragma once

#include <dlpack/dlpack.h>

#include <atomic>
#include <cmath>
#include <cstdint>

#include "host.h"
#include "kernel_call.h"

namespace nv {

// Must match the struct in attention_common.inc.
struct Dropout {
  uint64_t seed, start;
  unsigned threshold;
  float factor;

  // Reads the arguments dropout, seed and offset, starting at `index`.
  Dropout(const Call& call, int32_t index) {
    const double p = call.real(index);
    seed = static_cast<uint64_t>(call.integer(index + 1));
    start = static_cast<uint64_t>(call.integer(index + 2));
    threshold = static_cast<unsigned>(std::llround(p * 65536));
    factor = static_cast<float>(p == 1 ? 0 : 1 / (1 - p));
  }
  // The state for queries from `row` on, counted over all heads.
  Dropout from(int64_t row, int64_t keys) const {
    Dropout other = *this;
    other.start += static_cast<uint64_t>(row * ((keys + 7) / 8));
    return other;
  }
};

// Flash attention: one kernel forward, three backward, no scores in memory. Takes 16-bit floats, no mask, head sizes up
// to 128 that are multiples of 8, and a positive scale.
struct Flash {
  const DLTensor *query, *key, *value;
  int64_t causal;
  double scale;

  // Whether flash attention is allowed and supports these tensors and their device.
  bool supports(const DLTensor* mask, std::initializer_list<const DLTensor*> others) const;
  // Return 0, or the code of a raised error; NotImplementedError only before anything is queued.
  int forward(const DLTensor* out, const DLTensor* lse, const Dropout& dropout) const;
  int backward(const DLTensor* grad_query, const DLTensor* grad_key, const DLTensor* grad_value, const DLTensor* grad,
               const DLTensor* out, const DLTensor* lse, const Dropout& dropout) const;
};
extern std::atomic<bool> allow_flash;

}  // namespace nv
