// What a kernel finds wrong with its data, such as an index out of range. A device cannot raise an error: the kernel
// writes a few words instead, and the host looks at them when it next waits for the stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "error.h"

namespace hp {

class Stream;

// An index was out of range. Adapters turn it into their framework's error.
class IndexOutOfRange : public Error {
 public:
  explicit IndexOutOfRange(const std::string& message) : Error(HP_INVALID_ARGUMENT, message) {}
};

// One for each stream, so that the words are never written by two kernels at a time.
class DeviceFault {
 public:
  // As kernels/fault.h writes them. `op` is the address of the Operator; 0: all is well.
  struct Words {
    int64_t op = 0, index = 0, limit = 0;
  };

  // Device memory for the words, for a kernel that is about to be launched on the stream.
  void* arm(Stream& stream);
  // Queues a copy of the words if a kernel may have written them since the last one; else null, at no cost. They can be
  // read, and raised, once the stream was waited for.
  std::unique_ptr<Words> read(Stream& stream);
  void raise(Stream& stream, const Words& words);

 private:
  std::atomic<void*> memory_{nullptr};
  std::atomic<bool> armed_{false};
};

}  // namespace hp
