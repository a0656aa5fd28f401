// Memory for the time of a call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hardpoint/plugin.h"
#include "host.h"

namespace nv {

// Scratch memory of Hardpoint's for the time of a call.
class Scratch {
 public:
  Scratch(int device, int64_t bytes) : device_(device) {
    if (bytes == 0) return;
    if (host->scratch_allocate(device, static_cast<size_t>(bytes), &data) != HP_OK) data = nullptr;
  }
  ~Scratch() {
    if (data) host->scratch_free(device_, data);
  }
  Scratch(const Scratch&) = delete;
  void* data = nullptr;

 private:
  const int device_;
};

}  // namespace nv
