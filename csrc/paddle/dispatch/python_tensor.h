// Read-only Python wrappers of Phi tensors, for debugging tools and call replay.
#pragma once

#include <paddle/phi/backends/context_pool.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "core/memory/scratch.h"
#include "core/tensor/copy_views.h"
#include "dispatch/call.h"

namespace hp::paddle_adapter {

// Bytes from the first element to the end of the last one. Requires non-negative strides.
inline size_t span_bytes(const DenseTensor& tensor) {
  if (tensor.numel() == 0) return 0;
  int64_t last = 0;
  for (int d = 0; d < tensor.dims().size(); ++d) last += (tensor.dims()[d] - 1) * tensor.strides()[d];
  return static_cast<size_t>(last + 1) * phi::SizeOf(tensor.dtype());
}

// A weak reference to a tensor's memory.
class AllocationRef {
 public:
  explicit AllocationRef(const std::shared_ptr<phi::Allocation>& holder)
      : holder_(holder), address_(reinterpret_cast<uintptr_t>(holder->ptr())), bytes_(holder->size()) {}
  bool expired() const { return holder_.expired(); }
  uintptr_t address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  const std::weak_ptr<phi::Allocation> holder_;
  const uintptr_t address_;
  const size_t bytes_;
};

// Holds a reference to the tensor's memory.
class PythonTensor {
 public:
  explicit PythonTensor(const DenseTensor& tensor) : tensor_(tensor) {}

  const DenseTensor& tensor() const { return tensor_; }
  std::string dtype() const { return phi::DataTypeToString(tensor_.dtype()); }
  std::vector<int64_t> sizes() const { return common::vectorize(tensor_.dims()); }
  // Strides of a contiguous copy if some are negative, as in a reversed slice.
  std::vector<int64_t> strides() const {
    return common::vectorize(is_reversed() ? phi::DenseTensorMeta::calc_strides(tensor_.dims()) : tensor_.strides());
  }
  bool has_memory() const { return tensor_.initialized(); }
  bool is_view() const { return tensor_.meta().offset != 0 || !tensor_.meta().is_contiguous(); }
  uintptr_t address() const { return has_memory() ? reinterpret_cast<uintptr_t>(tensor_.data()) : 0; }
  std::string device() const {
    if (!has_memory()) return "";
    const phi::Place& place = tensor_.place();
    if (!on_device(tensor_)) return "cpu";
    return place.GetDeviceType() + ":" + std::to_string(place.GetDeviceId());
  }

  AllocationRef holder() const { return AllocationRef(tensor_.Holder()); }

  // A copy of the memory from the first element to the last, gaps included, in the layout of `strides`. Synchronizes
  // Paddle's stream.
  pybind11::bytes bytes() const {
    if (has_memory() && is_reversed()) return dense_bytes();
    std::string copy(has_memory() ? span_bytes(tensor_) : 0, '\0');
    if (copy.empty()) return copy;
    if (!on_device(tensor_)) {
      std::memcpy(copy.data(), tensor_.data(), copy.size());
      return copy;
    }
    Stream& stream = stream_of(*phi::DeviceContextPool::Instance().Get(tensor_.place()));
    {
      pybind11::gil_scoped_release released;
      stream.device.copy_to_host(copy.data(), tensor_.data(), copy.size(), stream);
      stream.synchronize();
    }
    return copy;
  }

 private:
  bool is_reversed() const {
    const auto& strides = tensor_.strides();
    return std::any_of(strides.Get(), strides.Get() + strides.size(), [](int64_t stride) { return stride < 0; });
  }
  pybind11::bytes dense_bytes() const {
    Stream& stream = stream_of(*phi::DeviceContextPool::Instance().Get(tensor_.place()));
    View dense = view(tensor_);
    const auto strides = phi::DenseTensorMeta::calc_strides(tensor_.dims());
    dense.strides = strides.Get();
    std::string copy(dense.bytes(), '\0');
    {
      pybind11::gil_scoped_release released;
      const StreamScope scope(stream);
      const Scratch scratch(stream.device, dense.bytes());
      dense.data = scratch.get();
      copy_views(stream.device, dense, view(tensor_));
      stream.device.copy_to_host(copy.data(), dense.data, copy.size(), stream);
      stream.synchronize();
    }
    return copy;
  }

  const DenseTensor tensor_;
};

inline pybind11::object to_python_tensor(const DenseTensor* tensor) {
  return tensor == nullptr ? pybind11::object(pybind11::none()) : pybind11::cast(PythonTensor(*tensor));
}

template <class T>
pybind11::list to_python_tensor(const List<T>& tensors) {
  pybind11::list list;
  for (const DenseTensor* tensor : tensors) list.append(to_python_tensor(tensor));
  return list;
}

}  // namespace hp::paddle_adapter
