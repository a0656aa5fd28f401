#include "device_fault.h"

#include "operator.h"
#include "recorder.h"
#include "runtime.h"

namespace hp {
namespace {

const DeviceFault::Words kNoFault;  // lives for ever: copies of it are queued

}  // namespace

void* DeviceFault::arm(Stream& stream) {
  void* memory = memory_.load(std::memory_order_acquire);
  if (memory == nullptr) {
    Device& device = stream.device;
    HP_CHECK(device.plugin.table.allocate(device.index, sizeof(Words), &memory), device.name() + ": allocate");
    device.copy_to_device(memory, &kNoFault, sizeof(Words), stream);
    void* other = nullptr;
    if (!memory_.compare_exchange_strong(other, memory, std::memory_order_acq_rel)) {
      stream.wait();  // another thread was first
      device.plugin.table.free(device.index, memory);
      memory = other;
    }
  }
  armed_.store(true, std::memory_order_release);
  if (Recorder* active = recorder()) active->armed(memory);
  return memory;
}

std::unique_ptr<DeviceFault::Words> DeviceFault::read(Stream& stream) {
  if (!armed_.load(std::memory_order_relaxed) || !armed_.exchange(false, std::memory_order_acq_rel)) return nullptr;
  auto words = std::make_unique<Words>();
  stream.device.copy_to_host(words.get(), memory_.load(std::memory_order_acquire), sizeof(Words), stream);
  return words;
}

void DeviceFault::raise(Stream& stream, const Words& words) {
  if (words.op == 0) return;
  stream.device.copy_to_device(memory_.load(std::memory_order_acquire), &kNoFault, sizeof(Words), stream);
  throw IndexOutOfRange(reinterpret_cast<const Operator*>(words.op)->name + ": index " + std::to_string(words.index) +
                        " is out of bounds for dimension with size " + std::to_string(words.limit) + " (found on " +
                        stream.device.name() + ", reported when the program waited for it)");
}

}  // namespace hp
