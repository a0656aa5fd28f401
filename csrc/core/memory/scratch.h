// Temporary device memory for one operator call, and reading a result back to the host.
#pragma once

#include "core/runtime/runtime.h"

namespace hp {

struct Block;

// Device memory freed by the destructor, ordered on the current stream. get() is null for 0 bytes.
class Scratch {
 public:
  Scratch(Device& device, int64_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  void* get() const { return data_; }

 private:
  Block* block_ = nullptr;
  void* data_ = nullptr;
};

// Reads an integer that a kernel wrote, for outputs with a data-dependent size. Synchronizes the current stream.
int64_t read_integer(Device& device, const int64_t* address);

}  // namespace hp
