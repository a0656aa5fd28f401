// Bookkeeping of one device's memory, shared by memory.cpp and interprocess.cpp.
#pragma once

#include <mutex>

#include "ranges.h"

namespace sim {

struct DeviceMemory {
  std::mutex mutex;  // for opening the device
  int fd = -1;       // memfd behind the device's own memory; set once, at the first allocation
  Ranges own;
  Ranges foreign;  // opened from other processes; not counted against the device's memory
};

DeviceMemory& memory_of(int device);
// First address of the device's window; its own memory starts here.
char* window_of(int device);

}  // namespace sim
