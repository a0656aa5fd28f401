// Temporary device memory for one call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hardpoint/plugin.h"
#include "host.h"

namespace nv {

// Allocates from Hardpoint's caching allocator; `data` is null on failure.
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
