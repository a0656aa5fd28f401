// torch.profiler on the mounted device.
#pragma once

namespace hp::torch_adapter {

// Registers with Kineto. Does nothing before torch 2.13, which cannot take a profiler from outside.
void register_profiler();

}  // namespace hp::torch_adapter
