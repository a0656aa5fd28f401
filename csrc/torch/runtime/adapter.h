// Declarations shared by the files of the PyTorch adapter: the mounted runtime, c10 to core conversions, memory and
// copies.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <torch/library.h>

#include "core/dispatch/operator.h"
#include "core/memory/allocator.h"
#include "core/memory/pinned_allocator.h"
#include "core/runtime/runtime.h"

namespace hp::torch_adapter {

constexpr auto kDeviceType = c10::DeviceType::PrivateUse1;
constexpr c10::DispatchKeySet kKeySet(c10::DispatchKey::PrivateUse1);

// The runtime behind PrivateUse1. Call attach() once, before any other function of the adapter.
void attach(Runtime& runtime);
extern Runtime* mounted;
inline Runtime& runtime() { return *mounted; }
PinnedAllocator& pinned_allocator();

// From now on, allocations ask torch whether a profiler wants to know of them.
void report_memory_to_profilers();

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

// Allocates uninitialized device memory; a negative `device` is the current one.
at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, int device);
at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype, int device);

// The record of an ATen overload, named as users know it: "aten::add.Tensor".
Operator& operator_of(const c10::OperatorHandle& handle);

// The CPU tier: runs the call on the CPU with copied arguments and copies the results back.
void cpu_tier(const c10::OperatorHandle& handle, torch::jit::Stack* stack);
// Number of CPU-tier calls made by this thread.
uint64_t cpu_tier_calls();

// Copies between and within devices and the host, with any layout and dtype. `src` is expanded to dst's sizes.
void copy_tensor(const at::Tensor& dst, const at::Tensor& src, bool non_blocking);

// Queues a copy of `tensor` into a new CPU tensor: same strides, unless it is a sparse view, which becomes dense.
// Synchronize the device's current stream before reading it.
at::Tensor queue_copy_to_cpu(const at::Tensor& tensor);
// Queues the reverse copy. `dst` is dense and laid out like `cpu`, whose memory must live until the stream is
// synchronized.
void queue_copy_from_cpu(const at::Tensor& dst, const at::Tensor& cpu);

// Waits for the stream. After a timeout, queued copies may still access the host tensors, so they are leaked.
template <class... Tensors>
void synchronize_or_leak(Stream& stream, const Tensors&... host) {
  try {
    stream.synchronize();
  } catch (const IndexOutOfRange& error) {
    TORCH_CHECK_INDEX(false, error.what());
  } catch (const Error& error) {
    if (error.status == HP_TIMEOUT) (new std::vector<std::tuple<Tensors...>>)->emplace_back(host...);
    throw;
  }
}

// Bytes from the start of the first element to the end of the last; 0 if the tensor is empty.
size_t span_bytes(const at::Tensor& tensor);

}  // namespace hp::torch_adapter
