// Data errors found by a kernel, such as an index out of range. A kernel cannot throw: it writes a fault record to
// device memory, and the host reads the record the next time it synchronizes the stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/runtime/error.h"

namespace hp {

class Stream;

// Adapters convert this to their framework's index error.
class IndexOutOfRange : public Error {
 public:
  explicit IndexOutOfRange(const std::string& message) : Error(HP_INVALID_ARGUMENT, message) {}
};

// The fault record of one stream. One per stream, so that no two kernels write a record concurrently.
class DeviceFault {
 public:
  // Layout shared with kernels/headers/fault.h. `op` is the address of the Operator; 0: no fault.
  struct Record {
    int64_t op = 0, index = 0, limit = 0;
  };

  // Returns the record's device address, for a kernel about to be launched on the stream. Never freed.
  void* arm(Stream& stream);
  // Queues a copy of the record to the host if arm() was called since the last read; otherwise returns null. The result
  // is valid once the stream has been waited for; pass it to raise() then.
  std::unique_ptr<Record> read(Stream& stream);
  // Like read(), but whether or not arm() was called since the last read.
  std::unique_ptr<Record> read_always(Stream& stream);
  // Throws IndexOutOfRange and clears the device's record if `record` holds a fault.
  void raise(Stream& stream, const Record& record);

 private:
  std::atomic<void*> memory_{nullptr};
  std::atomic<bool> armed_{false};
};

}  // namespace hp
