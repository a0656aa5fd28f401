// Copies between host and device memory, and between devices.
#pragma once

#include <cstddef>

#include "hardpoint/plugin.h"

namespace sim {

HpStatus copy_to_device(int device, void* dst, const void* src, size_t bytes, HpStream stream);
HpStatus copy_to_host(int device, void* dst, const void* src, size_t bytes, HpStream stream);
HpStatus fill_memory(int device, void* dst, uint8_t value, size_t bytes, HpStream stream);
HpStatus copy_on_device(int device, void* dst, const void* src, size_t bytes, HpStream stream);
HpStatus copy_to_peer(int dst_device, void* dst, int src_device, const void* src, size_t bytes, HpStream stream);

}  // namespace sim
