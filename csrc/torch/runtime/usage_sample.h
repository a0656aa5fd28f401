// A sample of all operator calls of the process, to tell whether a program uses the device at all.
#pragma once

#include <cstdint>

namespace hp::torch_adapter {

// Estimated numbers of operator calls since start_usage_sample.
struct OperatorUse {
  int64_t device = 0;  // calls with a tensor of the device among their arguments
  int64_t cpu = 0;     // calls with CPU tensors only
};

// Samples one call in `period`, in every thread, until the device is found in use; with 1, counts all calls. Other
// calls cost a decrement of torch's own countdown. Only the first call of this function has an effect.
void start_usage_sample(int64_t period);
OperatorUse operator_use();

}  // namespace hp::torch_adapter
