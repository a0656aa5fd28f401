#include "core/memory/scratch.h"

#include <memory>

#include "core/memory/allocator.h"

namespace hp {

Scratch::Scratch(Device& device, int64_t bytes) {
  if (bytes == 0) return;
  block_ = device.allocator().allocate(static_cast<size_t>(bytes), current_stream(device));
  data_ = CachingAllocator::address(block_);
}

Scratch::~Scratch() {
  if (block_ != nullptr) CachingAllocator::release(block_);
}

int64_t read_integer(Device& device, const int64_t* address) {
  Stream& stream = current_stream(device);
  auto value = std::make_unique<int64_t>();
  device.copy_to_host(value.get(), address, sizeof(int64_t), stream);
  try {
    stream.synchronize();
  } catch (const Error& error) {
    if (error.status == HP_TIMEOUT) value.release();  // leaked: the queued copy may still write to it
    throw;
  }
  return *value;
}

}  // namespace hp
