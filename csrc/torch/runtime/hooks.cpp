// PrivateUse1 hooks: torch's access to the device's current index, allocators, generators and storage resizing.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>

#include "runtime/adapter.h"
#include "runtime/device_graph.h"
#include "runtime/generator.h"
#include "runtime/profiler.h"

namespace hp::torch_adapter {

Runtime* mounted = nullptr;

namespace {

PinnedAllocator* pinned = nullptr;

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return mounted != nullptr; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return mounted != nullptr; }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(runtime().device_count()); }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(current_device(runtime()));
  }
  void setCurrentDevice(c10::DeviceIndex index) const override {
    set_current_device(runtime(), device_at(index).index);
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const c10::DeviceIndex previous = getCurrentDevice();
    if (index >= 0) setCurrentDevice(index);
    return previous;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override { return exchangeDevice(index); }

  at::Allocator* getPinnedMemoryAllocator() const override { return at::getHostAllocator(at::kPrivateUse1); }
  bool isPinnedPtr(const void* ptr) const override { return pinned_allocator().is_pinned(ptr); }
  at::Device getDeviceFromPtr(void* ptr) const override {
    for (int i = 0; i < runtime().device_count(); ++i) {
      if (runtime().device(i).allocator().find(ptr) != nullptr) return {kDeviceType, static_cast<c10::DeviceIndex>(i)};
    }
    TORCH_CHECK(false, ptr, " was not allocated on a ", runtime().name(), " device");
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return default_generator(index); }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<PhiloxGenerator>(static_cast<c10::DeviceIndex>(device_at(index).index));
  }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
    const c10::DeviceGuard guard(impl->device());
    c10::DataPtr grown = c10::GetAllocator(kDeviceType)->allocate(bytes);
    Device& device = device_at(impl->device().index());
    device.copy_on_device(grown.get(), impl->data(), std::min(bytes, impl->nbytes()), current_stream(device));
    impl->set_data_ptr_noswap(std::move(grown));
    impl->set_nbytes(bytes);
  }
};

}  // namespace

void attach(Runtime& runtime) {
  TORCH_CHECK(mounted == nullptr, "cannot attach ", runtime.name(), " to PyTorch: ", mounted->name(),
              " is attached, and a process has one device type");
  mounted = &runtime;
  pinned = new PinnedAllocator(runtime);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  register_profiler();
  register_graphs();
}

PinnedAllocator& pinned_allocator() { return *pinned; }

}  // namespace hp::torch_adapter
