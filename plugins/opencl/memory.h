// Device memory and copies.
#pragma once

#include "hardpoint/plugin.h"

namespace ocl {

HpStatus allocate(int device, size_t bytes, void** ptr);
HpStatus release(int device, void* ptr);
HpStatus copy(int device, void* dst, const void* src, size_t bytes, HpStream stream);  // in any direction
HpStatus copy_to_peer(int dst_device, void* dst, int src_device, const void* src, size_t bytes, HpStream stream);

}  // namespace ocl
