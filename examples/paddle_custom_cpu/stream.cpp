// Streams and events of a device that has finished when a call returns: there is nothing to queue and nothing to wait
// for. A real driver's stream and event handles go through C_Stream and C_Event, which Paddle never looks into.
#include "callbacks.h"

namespace custom_cpu {

// Leaving the handle unset would hand Paddle whatever was in that place.
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
