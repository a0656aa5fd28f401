// What the files of the PaddlePaddle adapter share: the bridge between Phi's types and the core's.
#pragma once

#include <paddle/phi/backends/custom/custom_context.h>
#include <paddle/phi/core/dense_tensor.h>

#include <string>

#include "../core/runtime.h"
#include "../core/view.h"

namespace hp::paddle_adapter {

using phi::DenseTensor;

// What core has no name for is kNone.
inline DType to_core(phi::DataType dtype) {
  switch (dtype) {
    case phi::DataType::FLOAT32:
      return DType::kF32;
    case phi::DataType::FLOAT64:
      return DType::kF64;
    case phi::DataType::FLOAT16:
      return DType::kF16;
    case phi::DataType::BFLOAT16:
      return DType::kBF16;
    case phi::DataType::INT8:
      return DType::kI8;
    case phi::DataType::INT16:
      return DType::kI16;
    case phi::DataType::INT32:
      return DType::kI32;
    case phi::DataType::INT64:
      return DType::kI64;
    case phi::DataType::UINT8:
      return DType::kU8;
    case phi::DataType::BOOL:
      return DType::kBool;
    case phi::DataType::COMPLEX64:
      return DType::kC64;
    case phi::DataType::COMPLEX128:
      return DType::kC128;
    default:
      return DType::kNone;
  }
}

// The tensor must outlive the view, and keep its shape. Undefined for a tensor without memory, or of a dtype that core
// does not know.
inline View view(const DenseTensor& tensor) {
  const auto& dims = tensor.dims();
  if (!tensor.initialized() || tensor.strides().size() != dims.size()) return {};
  return {const_cast<void*>(tensor.data()), to_core(tensor.dtype()), dims.size(), dims.Get(), tensor.strides().Get()};
}

// The stream that Paddle works on is one of ours: interface.cpp gave it out.
inline Stream& stream_of(const phi::DeviceContext& context) {
  return *static_cast<Stream*>(static_cast<const phi::CustomContext&>(context).stream());
}

inline bool on_device(const DenseTensor& tensor) { return tensor.place().GetType() == phi::AllocationType::CUSTOM; }

// Core's current stream of this thread, for the time of a call.
class StreamScope {
 public:
  explicit StreamScope(Stream& stream) : previous_(set_current_stream(stream)) {}
  ~StreamScope() { set_current_stream(previous_); }
  StreamScope(const StreamScope&) = delete;

 private:
  Stream& previous_;
};

// Fills in Paddle's CustomRuntimeParams at `address` for a mounted plug-in. Throws Error for an interface of a size
// that is not known.
void fill_interface(void* address, Runtime& runtime);
// Whether an interface of that size is one of Paddle 3.0 to 3.3.
bool known_interface(size_t size);

}  // namespace hp::paddle_adapter
