// Device memory that the host cannot access.
//
// `allocate` returns addresses from one reservation without access rights, shared by all devices. Each device's memfd
// is mapped read-write in a second range of the same size, the alias, at a constant offset. Copies and kernels add that
// offset; host code that dereferences a device pointer faults, as on real hardware. This needs no system call per
// access.
//
// The window of one device: [ own memory | memory imported from other processes ], config.memory bytes each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "config.h"
#include "hardpoint/plugin.h"

namespace sim {

struct Reservation {
  uintptr_t base = 0;   // first device address
  size_t window = 0;    // bytes of address space per device
  size_t total = 0;     // bytes of all windows
  ptrdiff_t alias = 0;  // device address + alias = accessible address
};
extern Reservation reservation;

// Reserves address space for config.devices devices. Memory is created when a device is first used.
HpStatus reserve_memory();

inline bool valid_device(int device) { return device >= 0 && device < config.devices; }
inline bool is_device_pointer(const void* ptr) {
  return reinterpret_cast<uintptr_t>(ptr) - reservation.base < reservation.total;
}
template <class T>
T* alias_of(T* ptr) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(ptr) + static_cast<uintptr_t>(reservation.alias));
}

// Whether [ptr, ptr + bytes) is memory of `device`: within its window and, in checked mode, within one live allocation.
bool owns(int device, const void* ptr, size_t bytes);

// Returns host->fail(HP_INVALID_ARGUMENT) for an invalid device index.
HpStatus no_such_device(int device);

HpStatus allocate(int device, size_t bytes, void** ptr);
HpStatus release(int device, void* ptr);
HpStatus memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes);

HpStatus export_memory(int device, void* ptr, size_t bytes, unsigned char* handle);
HpStatus open_memory(int device, const unsigned char* handle, void** ptr);
HpStatus close_memory(int device, void* ptr);

// Host memory treated as page-locked: copies to and from it are always queued.
HpStatus allocate_pinned(size_t bytes, void** ptr);
HpStatus release_pinned(void* ptr);
bool is_pinned(const void* ptr);

}  // namespace sim
