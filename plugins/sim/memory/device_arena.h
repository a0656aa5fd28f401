// Bookkeeping of one device's memory, shared by device_memory.cpp and interprocess.cpp.
#pragma once

#include <mutex>

#include "memory/range_allocator.h"

namespace sim {

struct DeviceArena {
  std::mutex mutex;  // guards the creation of the memory
  int fd = -1;       // memfd of the device's own memory; set once, at the first allocation
  RangeAllocator own;
  RangeAllocator imported;  // memory of other processes; not counted against the device's memory
};

DeviceArena& arena_of(int device);
// First address of the device's window, where its own memory starts.
char* window_of(int device);

}  // namespace sim
