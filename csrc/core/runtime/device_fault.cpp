#include "core/runtime/device_fault.h"

#include "core/dispatch/operator.h"
#include "core/recording/recorder.h"
#include "core/runtime/runtime.h"

namespace hp {
namespace {

const DeviceFault::Record kNoFault;  // static: queued copies read it asynchronously

}  // namespace

void* DeviceFault::arm(Stream& stream) {
  void* memory = memory_.load(std::memory_order_acquire);
  if (memory == nullptr) {
    Device& device = stream.device;
    HP_CHECK(device.plugin.table.allocate(device.index, sizeof(Record), &memory), device.name() + ": allocate");
    device.copy_to_device(memory, &kNoFault, sizeof(Record), stream);
    void* other = nullptr;
    if (!memory_.compare_exchange_strong(other, memory, std::memory_order_acq_rel)) {
      stream.wait();  // another thread stored its record first
      device.plugin.table.free(device.index, memory);
      memory = other;
    }
  }
  armed_.store(true, std::memory_order_release);
  if (Recorder* active = recorder()) active->on_fault_arm(memory);
  return memory;
}

std::unique_ptr<DeviceFault::Record> DeviceFault::read(Stream& stream) {
  if (!armed_.load(std::memory_order_relaxed) || !armed_.exchange(false, std::memory_order_acq_rel)) return nullptr;
  return read_always(stream);
}

std::unique_ptr<DeviceFault::Record> DeviceFault::read_always(Stream& stream) {
  auto record = std::make_unique<Record>();
  stream.device.copy_to_host(record.get(), memory_.load(std::memory_order_acquire), sizeof(Record), stream);
  return record;
}

void DeviceFault::raise(Stream& stream, const Record& record) {
  if (record.op == 0) return;
  stream.device.copy_to_device(memory_.load(std::memory_order_acquire), &kNoFault, sizeof(Record), stream);
  const std::string& op = reinterpret_cast<const Operator*>(record.op)->name;
  const std::string where = " (on " + stream.device.name() + ", reported when the program waited for it)";
  if (record.limit < -1) {
    throw Error(HP_ERROR, op + ": its argument " + std::to_string(-2 - record.limit) +
                              " is read or written outside of its memory, at line " + std::to_string(record.index) +
                              where);
  }
  if (record.limit < 0) {
    throw Error(HP_ERROR, op + ": a device assertion failed at line " + std::to_string(record.index) + where);
  }
  throw IndexOutOfRange(op + ": index " + std::to_string(record.index) + " is out of bounds for dimension with size " +
                        std::to_string(record.limit) + " (found on " + stream.device.name() +
                        ", reported when the program waited for it)");
}

}  // namespace hp
