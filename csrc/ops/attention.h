// Scaled dot-product attention, without the matrix of all scores.
#pragma once

#include "../core/philox.h"
#include "../core/service.h"

namespace hp::ops {

// Batch x heads x length x elements, the last contiguous; key and value may have fewer heads, which divide those of the
// query. The mask is additive, of the same dtype, expanded to batch x heads x queries x keys; or undefined.
struct Attention {
  View query, key, value, mask;
  bool causal;
  double scale;
  double dropout = 0;  // probability that a weight is dropped
  PhiloxState random{0, 0};
};
// Blocks of the generator that dropout takes.
uint64_t dropout_blocks(const Attention& given);
constexpr int64_t kMostAttentionElements = 256;  // of a head

// lse: batch x heads x queries, contiguous, of the dtype that sums are gathered in.
bool attention(const Service& service, Device& device, const View& out, const View& lse, const Attention& given);

// grad_query is contiguous.
bool attention_backward(const Service& service, Device& device, const View& grad_query, const View& grad_key,
                        const View& grad_value, const View& grad, const View& out, const View& lse,
                        const Attention& given);

}  // namespace hp::ops
