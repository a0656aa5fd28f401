// One call of a vendor's kernel: packs ATen tensors and scalars as TVM-FFI arguments, on the stack.
#pragma once

#include <dlpack/dlpack.h>
#include <tvm/ffi/c_api.h>

#include "../core/launch.h"
#include "adapter.h"

namespace hp::torch_adapter {

inline DLDataType to_dlpack(at::ScalarType type) {
  auto make = [](int code, size_t bytes) {
    return DLDataType{static_cast<uint8_t>(code), static_cast<uint8_t>(bytes * 8), 1};
  };
  const size_t bytes = c10::elementSize(type);
  switch (type) {
    case at::kBool:
      return make(kDLBool, 1);
    case at::kByte:
    case at::kUInt16:
    case at::kUInt32:
    case at::kUInt64:
      return make(kDLUInt, bytes);
    case at::kChar:
    case at::kShort:
    case at::kInt:
    case at::kLong:
      return make(kDLInt, bytes);
    case at::kHalf:
    case at::kFloat:
    case at::kDouble:
      return make(kDLFloat, bytes);
    case at::kBFloat16:
      return make(kDLBfloat, bytes);
    case at::kComplexHalf:
    case at::kComplexFloat:
    case at::kComplexDouble:
      return make(kDLComplex, bytes);
    case at::kFloat8_e4m3fn:
      return make(kDLFloat8_e4m3fn, bytes);
    case at::kFloat8_e5m2:
      return make(kDLFloat8_e5m2, bytes);
    case at::kFloat8_e4m3fnuz:
      return make(kDLFloat8_e4m3fnuz, bytes);
    case at::kFloat8_e5m2fnuz:
      return make(kDLFloat8_e5m2fnuz, bytes);
    default:
      return make(kDLOpaqueHandle, bytes);
  }
}

template <int kMaxArgs>
class KernelCall {
 public:
  KernelCall(Operator& op, const hp::Kernel& kernel, Device& device)
      : op_(op), kernel_(kernel), stream_(current_stream(device)) {}

  // The tensor must live, and keep its shape, until run().
  void add(const at::Tensor& tensor) {
    add(const_cast<void*>(tensor.const_data_ptr()), tensor.sizes(), tensor.strides(), tensor.scalar_type());
  }
  void add(void* data, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
    DLTensor& t = tensors_[count_];
    t.data = data;
    t.device = {static_cast<DLDeviceType>(HP_DLPACK_DEVICE_TYPE), stream_.device.index};
    t.ndim = static_cast<int32_t>(sizes.size());
    t.dtype = to_dlpack(type);
    t.shape = const_cast<int64_t*>(sizes.data());
    t.strides = const_cast<int64_t*>(strides.data());
    t.byte_offset = 0;
    push(kTVMFFIDLTensorPtr).v_ptr = &t;
  }
  void add(const at::Scalar& value) {
    if (value.isBoolean()) {
      push(kTVMFFIBool).v_int64 = value.toBool();
    } else if (value.isIntegral(false)) {
      push(kTVMFFIInt).v_int64 = value.toLong();
    } else {
      representable_ &= !value.isComplex();  // TVM-FFI has no complex scalar
      push(kTVMFFIFloat).v_float64 = value.isComplex() ? 0.0 : value.toDouble();
    }
  }

  // False when the kernel declined: the next tier takes the call.
  bool run() {
    if (!representable_) return false;
    if (C10_UNLIKELY(observed())) notify({op_, Tier::kVendor, true, nullptr});
    if (!launch(op_, kernel_, stream_, args_, count_)) return false;
    op_.count(Tier::kVendor);
    if (C10_UNLIKELY(observed())) notify({op_, Tier::kVendor, false, nullptr});
    return true;
  }

 private:
  TVMFFIAny& push(int32_t type_index) {
    TVMFFIAny& arg = args_[count_++];
    arg.type_index = type_index;
    arg.zero_padding = 0;
    return arg;
  }

  Operator& op_;
  const hp::Kernel& kernel_;
  Stream& stream_;
  int32_t count_ = 0;
  bool representable_ = true;
  TVMFFIAny args_[kMaxArgs];
  DLTensor tensors_[kMaxArgs];
};

}  // namespace hp::torch_adapter
