// Tensors as Python sees them: tools, and what replays a call.
#pragma once

#include <paddle/phi/backends/context_pool.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "call.h"

namespace hp::paddle_adapter {

// Bytes from the first element to the end of the last.
inline size_t span_of(const DenseTensor& tensor) {
  if (tensor.numel() == 0) return 0;
  int64_t last = 0;
  for (int d = 0; d < tensor.dims().size(); ++d) last += (tensor.dims()[d] - 1) * tensor.strides()[d];
  return static_cast<size_t>(last + 1) * phi::SizeOf(tensor.dtype());
}

// A tensor's memory, which this does not keep.
class SeenHolder {
 public:
  explicit SeenHolder(const std::shared_ptr<phi::Allocation>& holder)
      : holder_(holder), address_(reinterpret_cast<uintptr_t>(holder->ptr())), bytes_(holder->size()) {}
  bool gone() const { return holder_.expired(); }
  uintptr_t address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  const std::weak_ptr<phi::Allocation> holder_;
  const uintptr_t address_;
  const size_t bytes_;
};

// A tensor as tools see it. It shares the memory, and keeps it.
class SeenTensor {
 public:
  explicit SeenTensor(const DenseTensor& tensor) : tensor_(tensor) {}

  const DenseTensor& tensor() const { return tensor_; }
  std::string dtype() const { return phi::DataTypeToString(tensor_.dtype()); }
  std::vector<int64_t> sizes() const { return common::vectorize(tensor_.dims()); }
  std::vector<int64_t> strides() const { return common::vectorize(tensor_.strides()); }
  bool has_memory() const { return tensor_.initialized(); }
  bool is_view() const { return tensor_.meta().offset != 0 || !tensor_.meta().is_contiguous(); }
  uintptr_t address() const { return has_memory() ? reinterpret_cast<uintptr_t>(tensor_.data()) : 0; }
  std::string device() const {
    if (!has_memory()) return "";
    const phi::Place& place = tensor_.place();
    if (!on_device(tensor_)) return "cpu";
    return place.GetDeviceType() + ":" + std::to_string(place.GetDeviceId());
  }

  SeenHolder holder() const { return SeenHolder(tensor_.Holder()); }

  // From the first element to the last, with what lies between.
  pybind11::bytes bytes() const {
    std::string copy(has_memory() ? span_of(tensor_) : 0, '\0');
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
  const DenseTensor tensor_;
};

inline pybind11::object seen(const DenseTensor* tensor) {
  return tensor == nullptr ? pybind11::object(pybind11::none()) : pybind11::cast(SeenTensor(*tensor));
}

template <class T>
pybind11::list seen(const List<T>& tensors) {
  pybind11::list list;
  for (const DenseTensor* tensor : tensors) list.append(seen(tensor));
  return list;
}

}  // namespace hp::paddle_adapter
