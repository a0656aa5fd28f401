// Device memory, page-locked host memory, and copies.
#pragma once

#include "hardpoint/plugin.h"

namespace nv {

HpStatus allocate(int device, size_t bytes, void** ptr);
HpStatus release(int device, void* ptr);
HpStatus copy_to_device(int device, void* dst, const void* src, size_t bytes, HpStream stream);
HpStatus copy_to_host(int device, void* dst, const void* src, size_t bytes, HpStream stream);
HpStatus copy_on_device(int device, void* dst, const void* src, size_t bytes, HpStream stream);
HpStatus fill_memory(int device, void* dst, uint8_t value, size_t bytes, HpStream stream);
HpStatus copy_to_peer(int dst_device, void* dst, int src_device, const void* src, size_t bytes, HpStream stream);
HpStatus allocate_pinned(size_t bytes, void** ptr);
HpStatus release_pinned(void* ptr);

}  // namespace nv
