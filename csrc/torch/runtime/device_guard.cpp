// Device guard: c10's interface to the current device, streams and events.
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "runtime/adapter.h"
#include "runtime/device_graph.h"

namespace hp::torch_adapter {
namespace {

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = kDeviceType;
  Guard() = default;
  explicit Guard(c10::DeviceType type) { TORCH_INTERNAL_ASSERT(type == kDeviceType); }

  c10::DeviceType type() const override { return kDeviceType; }
  c10::Device getDevice() const override {
    return {kDeviceType, static_cast<c10::DeviceIndex>(current_device(runtime()))};
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device previous = getDevice();
    setDevice(device);
    return previous;
  }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.type() == kDeviceType, "expected a ", runtime().name(), " device, got ", device);
    set_current_device(runtime(), device_at(device.index()).index);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) set_current_device(runtime(), device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return mounted != nullptr ? static_cast<c10::DeviceIndex>(runtime().device_count()) : 0;
  }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    // Any dtype with a CPU kernel works; quantized dtypes do not.
    c10::DeviceCapability capability;
    auto& types = capability.capability_data.supported_scalar_types;
    types.has_QInt8 = types.has_QUInt8 = types.has_QInt32 = types.has_QUInt4x2 = types.has_QUInt2x4 = 0;
    return capability;
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override { device_at(index).synchronize(); }

  c10::Stream getStream(c10::Device device) const override {
    return to_torch(current_stream(device_at(device.index())));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return to_torch(device_at(device.index()).default_stream());
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return to_torch(device_at(device.index()).pool_stream(high_priority ? -1 : 0));
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return to_torch(device_at(device.index()).pool_stream(priority));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return to_torch(set_current_stream(from_torch(stream)));
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return from_torch(stream).handle(); }
  bool queryStream(const c10::Stream& stream) const override { return from_torch(stream).query(); }
  void synchronizeStream(const c10::Stream& stream) const override { from_torch(stream).synchronize(); }

#ifdef HP_TORCH_GRAPHS
  bool isStreamCapturing(const c10::Stream& stream) const override { return from_torch(stream).capture() != nullptr; }
#endif

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag flag) const override {
    Stream& target = from_torch(stream);
    if (*event == nullptr) *event = target.device.acquire_event(flag == c10::EventFlag::BACKEND_DEFAULT);
    static_cast<Event*>(*event)->record(target);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) static_cast<Event*>(event)->block(from_torch(stream));
  }
  bool queryEvent(void* event) const override { return event == nullptr || static_cast<Event*>(event)->query(); }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) static_cast<Event*>(event)->synchronize();
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event == nullptr) return;
    auto* recorded = static_cast<Event*>(event);
    recorded->device.release_event(recorded);
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr, "elapsed_time needs two events that were recorded");
    auto* last = static_cast<Event*>(end);
    last->synchronize();
    return static_cast<Event*>(start)->elapsed_ms(*last);
  }
  void recordDataPtrOnStream(const c10::DataPtr& ptr, const c10::Stream& stream) const override {
    c10::getDeviceAllocator(kDeviceType)->recordStream(ptr, stream);
  }
};

}  // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace hp::torch_adapter
