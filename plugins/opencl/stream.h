// Streams, which are queues of OpenCL that work in order, and events.
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

// A command on its way: the stream is locked while it is queued, and remembers when it is done.
struct Queued {
  int device;
  struct Stream* stream = nullptr;
  cl_command_queue queue = nullptr;
  cl_event done = nullptr;

  HpStatus begin(HpStream handle);
  HpStatus end(cl_int result, const char* what);
};

// Queues one command by calling `command(queue, event to set)`, which returns OpenCL's result.
template <class Command>
HpStatus enqueue(int device, HpStream stream, const char* what, Command command) {
  Queued queued{device};
  if (HpStatus status = queued.begin(stream)) return status;
  return queued.end(command(queued.queue, &queued.done), what);
}

}  // namespace ocl
