// What the files of the PyTorch adapter share: the mounted runtime, and the bridge between c10's types and the core's.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <torch/library.h>

#include "../core/allocator.h"
#include "../core/operator.h"
#include "../core/pinned.h"
#include "../core/runtime.h"

namespace hp::torch_adapter {

constexpr auto kDeviceType = c10::DeviceType::PrivateUse1;
constexpr c10::DispatchKeySet kKeySet(c10::DispatchKey::PrivateUse1);

// The runtime behind PrivateUse1. Set once, before anything else of the adapter is used.
void attach(Runtime& runtime);
extern Runtime* mounted;
inline Runtime& runtime() { return *mounted; }
PinnedAllocator& pinned_allocator();

inline Device& device_at(c10::DeviceIndex index) {
  return runtime().device(index < 0 ? current_device(runtime()) : index);
}
inline Device& device_holding(const at::Tensor& tensor) { return device_at(tensor.device().index()); }

inline c10::Stream to_torch(const Stream& stream) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, static_cast<c10::DeviceIndex>(stream.device.index)),
                     stream.id);
}
inline Stream& from_torch(const c10::Stream& stream) { return device_at(stream.device_index()).stream(stream.id()); }

inline bool on_device(const at::Tensor& tensor) { return tensor.defined() && tensor.is_privateuseone(); }

// Device memory for a tensor; does not touch the current device when it is the right one already.
at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, int device);
at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype, int device);

// The record of an ATen overload. The name is the one that users know: "aten::add.Tensor".
Operator& operator_of(const c10::OperatorHandle& handle);

// Runs the call on the CPU and brings the results back: the last tier.
void cpu_tier(const c10::OperatorHandle& handle, torch::jit::Stack* stack);
// How often this thread has done so.
uint64_t cpu_tier_calls();

// Copies of every kind between and within devices; sizes must be equal or expandable.
void copy_tensor(const at::Tensor& dst, const at::Tensor& src, bool non_blocking);

// A CPU tensor with the same sizes, strides and bytes as `tensor`. The copy is queued: synchronise the device's current
// stream before reading it.
at::Tensor queue_copy_to_cpu(const at::Tensor& tensor);
// The other way: `dst` is dense and laid out like `cpu`. The host memory must live until the stream is synchronised.
void queue_copy_from_cpu(const at::Tensor& dst, const at::Tensor& cpu);

// Waits for the stream. If that takes too long, queued copies may still use the host memory of these tensors, so they
// are kept for ever.
template <class... Tensors>
void synchronize_keeping(Stream& stream, const Tensors&... host) {
  try {
    stream.synchronize();
  } catch (const IndexOutOfRange& error) {
    TORCH_CHECK_INDEX(false, error.what());
  } catch (const Error& error) {
    if (error.status == HP_TIMEOUT) (new std::vector<std::tuple<Tensors...>>)->emplace_back(host...);
    throw;
  }
}

// Bytes from the first to the last element.
size_t span_bytes(const at::Tensor& tensor);

}  // namespace hp::torch_adapter
