// Streams and events of a synchronous device: there is nothing to queue and nothing to wait for. A real driver stores
// its handles in C_Stream and C_Event, which are opaque to Paddle.
#include "callbacks.h"

namespace custom_cpu {

// Otherwise the handle would be uninitialized.
C_Status create_stream(const C_Device, C_Stream* stream) {
  *stream = nullptr;
  return C_SUCCESS;
}

C_Status create_event(const C_Device, C_Event* event) {
  *event = nullptr;
  return C_SUCCESS;
}

C_Status record_event(const C_Device, C_Stream, C_Event) { return C_SUCCESS; }
C_Status stream_wait_event(const C_Device, C_Stream, C_Event) { return C_SUCCESS; }
C_Status stream_is_done(const C_Device, C_Stream) { return C_SUCCESS; }
C_Status event_is_done(const C_Device, C_Event) { return C_SUCCESS; }
C_Status device_is_done(const C_Device) { return C_SUCCESS; }

}  // namespace custom_cpu
