// Scaled dot-product attention and its backward, without storing the score matrix.
#pragma once

#include "core/dispatch/vendor_call.h"
#include "core/runtime/philox.h"

namespace hp::ops {

// Tensors are batch x heads x length x head dim, contiguous in the last. Key and value may have fewer heads, a divisor
// of the query's. The mask is additive, of the same dtype, expanded to batch x heads x queries x keys; or undefined.
struct AttentionArgs {
  View query, key, value, mask;
  bool causal;
  double scale;
  double dropout = 0;  // probability of dropping a weight
  PhiloxState random{0, 0};
};
// Random blocks that dropout draws.
uint64_t dropout_blocks(const AttentionArgs& args);
constexpr int64_t kMaxHeadDim = 256;

// lse (logsumexp of the scores): batch x heads x queries, contiguous, of the accumulation dtype.
bool attention(const OpBinding& binding, Device& device, const View& out, const View& lse, const AttentionArgs& args);

// grad_query must be contiguous.
bool attention_backward(const OpBinding& binding, Device& device, const View& grad_query, const View& grad_key,
                        const View& grad_value, const View& grad, const View& out, const View& lse,
                        const AttentionArgs& args);

}  // namespace hp::ops
