// Events: markers in a stream that other streams and the host can wait for.
#pragma once

#include "hardpoint/plugin.h"

namespace sim {

HpStatus create_event(int device, int with_timing, HpEvent* handle);
HpStatus destroy_event(int device, HpEvent handle);
HpStatus record_event(int device, HpEvent handle, HpStream stream);
HpStatus wait_event(int device, HpEvent handle, HpStream stream);
HpStatus synchronize_event(int device, HpEvent handle, uint32_t timeout_ms);
HpStatus query_event(int device, HpEvent handle);
HpStatus elapsed_between(int device, HpEvent start, HpEvent end, double* milliseconds);

}  // namespace sim
