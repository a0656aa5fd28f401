// Device memory that the host cannot touch.
//
// All devices share one reservation of address space without any access rights: the addresses that `allocate` returns.
// At a constant distance lies a second view of the same size, the alias, where each device's memfd is mapped
// read-write. Only copies and kernels add that distance; host code that dereferences a device pointer faults, as on
// real silicon. No system call is needed to open or close that door.
//
// The window of one device: [ its own memory | memory opened from other processes ], config.memory bytes each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "config.h"
#include "hardpoint/plugin.h"

namespace sim {

struct Reservation {
  uintptr_t base = 0;   // first device address
  size_t window = 0;    // bytes of address space of one device
  size_t total = 0;     // of all devices
  ptrdiff_t alias = 0;  // device address + alias = where sim itself reads and writes
};
extern Reservation reservation;

// Reserves address space for config.devices devices; memory itself is created when a device is first used.
HpStatus reserve_memory();

inline bool valid_device(int device) { return device >= 0 && device < config.devices; }
inline bool is_device_pointer(const void* ptr) {
  return reinterpret_cast<uintptr_t>(ptr) - reservation.base < reservation.total;
}
template <class T>
T* alias_of(T* ptr) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(ptr) + static_cast<uintptr_t>(reservation.alias));
}

// Whether [ptr, ptr + bytes) is memory of `device`: inside its window, and in checked mode inside one live allocation.
bool owns(int device, const void* ptr, size_t bytes);

// host->fail(HP_INVALID_ARGUMENT) for a device that does not exist.
HpStatus no_such_device(int device);

HpStatus allocate(int device, size_t bytes, void** ptr);
HpStatus release(int device, void* ptr);
HpStatus memory_info(int device, uint64_t* free_bytes, uint64_t* total_bytes);

HpStatus export_memory(int device, void* ptr, size_t bytes, unsigned char* handle);
HpStatus open_memory(int device, const unsigned char* handle, void** ptr);
HpStatus close_memory(int device, void* ptr);

// Host memory that counts as page-locked: copies to and from it are always queued.
HpStatus allocate_pinned(size_t bytes, void** ptr);
HpStatus release_pinned(void* ptr);
bool is_pinned(const void* ptr);

}  // namespace sim
