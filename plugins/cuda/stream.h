// Streams and events.
#pragma once

#include "hardpoint/plugin.h"

namespace nv {

HpStatus create_stream(int device, int priority, HpStream* stream);
HpStatus destroy_stream(int device, HpStream stream);
HpStatus synchronize_stream(int device, HpStream stream, uint32_t timeout_ms);
HpStatus query_stream(int device, HpStream stream);
HpStatus call_host(int device, HpStream stream, void (*function)(void* data), void* data);

HpStatus create_event(int device, int with_timing, HpEvent* event);
HpStatus destroy_event(int device, HpEvent event);
HpStatus record_event(int device, HpEvent event, HpStream stream);
HpStatus wait_event(int device, HpEvent event, HpStream stream);
HpStatus synchronize_event(int device, HpEvent event, uint32_t timeout_ms);
HpStatus query_event(int device, HpEvent event);
HpStatus elapsed_between(int device, HpEvent start, HpEvent end, double* milliseconds);

}  // namespace nv
