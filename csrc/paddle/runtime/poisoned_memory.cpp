#include "runtime/poisoned_memory.h"

#include <paddle/phi/backends/context_pool.h>
#include <paddle/phi/core/allocator.h>
#include <paddle/phi/core/device_context.h>

#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "runtime/adapter.h"

namespace py = pybind11;

namespace hp::paddle_adapter {
namespace {

// Wraps a device context's allocator. Kernels allocate their outputs and scratch memory through the context.
class PoisoningAllocator final : public phi::Allocator {
 public:
  PoisoningAllocator(phi::DeviceContext& context, int byte)
      : context_(context), inner_(const_cast<phi::Allocator&>(context.GetAllocator())), byte_(byte) {}

  AllocationPtr Allocate(size_t bytes) override {
    AllocationPtr allocation = inner_.Allocate(bytes);
    if (bytes == 0) return allocation;
    if (context_.GetPlace().GetType() == phi::AllocationType::CPU) {
      std::memset(allocation->ptr(), byte_, bytes);
      return allocation;
    }
    const std::vector<unsigned char> pattern(bytes, static_cast<unsigned char>(byte_));
    Stream& stream = stream_of(context_);
    stream.device.copy_to_device(allocation->ptr(), pattern.data(), bytes, stream);
    stream.synchronize();
    return allocation;
  }
  bool IsAllocThreadSafe() const override { return inner_.IsAllocThreadSafe(); }

  phi::DeviceContext& context() const { return context_; }
  const phi::Allocator& inner() const { return inner_; }

 private:
  phi::DeviceContext& context_;
  phi::Allocator& inner_;
  const int byte_;
};

std::vector<std::unique_ptr<PoisoningAllocator>>& installed() {
  static auto* list = new std::vector<std::unique_ptr<PoisoningAllocator>>;
  return *list;
}

void stop_poisoning() {
  for (const auto& allocator : installed()) allocator->context().SetAllocator(&allocator->inner());
  installed().clear();
}

// Fills new memory of the host and of a device, by name and index, with `byte`. If both results still have it at the
// same place, the CPU kernel leaves that element undefined too.
void start_poisoning(const std::string& device, int index, int byte) {
  stop_poisoning();
  for (const phi::Place& place : {phi::Place(phi::CPUPlace()), phi::Place(phi::CustomPlace(device, index))}) {
    phi::DeviceContext& context = *phi::DeviceContextPool::Instance().Get(place);
    auto allocator = std::make_unique<PoisoningAllocator>(context, byte);
    context.SetAllocator(allocator.get());
    installed().push_back(std::move(allocator));
  }
}

}  // namespace

void bind_poisoned_memory(py::module_& module) {
  module.def("start_poisoning", &start_poisoning);
  module.def("stop_poisoning", &stop_poisoning);
}

}  // namespace hp::paddle_adapter
