// Copies between the host and a device without a thread for each.
#pragma once

namespace hp::paddle_adapter {

// Paddle wraps a device's stream in an object of its own for each copy, whose constructor starts a thread, and whose
// destructor waits for it. Afterwards such objects share one thread. Calls after the first do nothing.
void share_stream_threads();

}  // namespace hp::paddle_adapter
