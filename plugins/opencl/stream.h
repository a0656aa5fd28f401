// Streams, implemented as in-order OpenCL queues, and events.
#pragma once

#include "cl.h"

namespace ocl {

HpStatus create_stream(int device, int priority, HpStream* stream);
HpStatus destroy_stream(int device, HpStream stream);
HpStatus synchronize_stream(int device, HpStream stream, uint32_t timeout_ms);
HpStatus query_stream(int device, HpStream stream);

HpStatus create_event(int device, int with_timing, HpEvent* event);
HpStatus destroy_event(int device, HpEvent event);
HpStatus record_event(int device, HpEvent event, HpStream stream);
HpStatus wait_event(int device, HpEvent event, HpStream stream);
HpStatus synchronize_event(int device, HpEvent event, uint32_t timeout_ms);
HpStatus query_event(int device, HpEvent event);
HpStatus elapsed_between(int device, HpEvent start, HpEvent end, double* milliseconds);

// Locks a stream while one command is enqueued, and stores the command's event as the stream's last.
struct CommandScope {
  int device;
  struct Stream* stream = nullptr;
  cl_command_queue queue = nullptr;
  cl_event done = nullptr;

  HpStatus begin(HpStream handle);
  HpStatus end(cl_int result, const char* what);
};

// Enqueues one command: calls `command(queue, event to set)`, which returns OpenCL's result.
template <class Command>
HpStatus enqueue(int device, HpStream stream, const char* what, Command command) {
  CommandScope scope{device};
  if (HpStatus status = scope.begin(stream)) return status;
  return scope.end(command(scope.queue, &scope.done), what);
}

}  // namespace ocl
