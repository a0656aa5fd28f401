// Sums of gradients of a sparse tensor (COO). When such a tensor is used twice, Paddle's backward pass adds the values
// of the second gradient to those of the first, in place on its own devices. On custom devices it calls `add` and drops
// the result. Here the sum is also written where Paddle expects it.
#pragma once

#include <paddle/phi/core/sparse_coo_tensor.h>

#include <atomic>

#include "dispatch/call.h"

namespace hp::paddle_adapter {

// A backward pass begins or ends on this thread. Passes nest.
void enter_backward();
void leave_backward();
bool in_backward();

// Remembers the values of a gradient that a backward pass has computed. Does not own their memory.
void add_sparse_gradient(const phi::SparseCooTensor& gradient);

extern std::atomic<bool> has_sparse_gradients;

// After a call from dygraph: if it added two sparse gradients, writes the sum to the second operand.
void finish_sparse_sum(const Call& call);

}  // namespace hp::paddle_adapter
