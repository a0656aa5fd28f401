// Packs views and numbers as TVM-FFI arguments and calls a vendor kernel.
#pragma once

#include <dlpack/dlpack.h>
#include <tvm/ffi/c_api.h>

#include "core/dispatch/launch.h"
#include "core/tensor/view.h"

namespace hp {

inline DLDataType to_dlpack(DType dtype) {
  return {static_cast<uint8_t>(info(dtype).dlpack_code), static_cast<uint8_t>(info(dtype).bytes * 8), 1};
}

inline DLTensor to_dlpack(const View& view, int device) {
  return {view.data,
          {static_cast<DLDeviceType>(HP_DLPACK_DEVICE_TYPE), device},
          view.ndim,
          to_dlpack(view.dtype),
          const_cast<int64_t*>(view.sizes),
          const_cast<int64_t*>(view.strides),
          0};
}

inline TVMFFIAny ffi_value(int32_t type_index, int64_t value) {
  TVMFFIAny any;
  any.type_index = type_index;
  any.zero_padding = 0;
  any.v_int64 = value;
  return any;
}
inline TVMFFIAny ffi_real(double value) {
  TVMFFIAny any = ffi_value(kTVMFFIFloat, 0);
  any.v_float64 = value;
  return any;
}
// The tensor must outlive the call.
inline TVMFFIAny ffi_tensor(DLTensor& tensor) {
  TVMFFIAny any = ffi_value(kTVMFFIDLTensorPtr, 0);
  any.v_ptr = &tensor;
  return any;
}

// Launches the kernel, counts the call and notifies observers. Returns false if the kernel declined.
inline bool launch_vendor(Operator& op, const Kernel& kernel, Stream& stream, const TVMFFIAny* args, int32_t count) {
  if (__builtin_expect(observed(), 0)) notify({op, Tier::kVendor, true, nullptr});
  if (!launch(op, kernel, stream, args, count)) return false;
  op.count(Tier::kVendor);
  if (__builtin_expect(observed(), 0)) notify({op, Tier::kVendor, false, nullptr});
  return true;
}

// A call with at most kMaxArgs arguments that passes views without copying them. Views must outlive run().
template <int kMaxArgs>
class KernelCall {
 public:
  KernelCall(Operator& op, const Kernel& kernel, Device& device)
      : op_(op), kernel_(kernel), stream_(current_stream(device)) {}

  void add(const View& view) {
    tensors_[count_] = to_dlpack(view, stream_.device.index);
    args_[count_] = ffi_tensor(tensors_[count_]);
    ++count_;
  }
  void add(const TVMFFIAny& value) { args_[count_++] = value; }
  bool run() { return launch_vendor(op_, kernel_, stream_, args_, count_); }

 private:
  Operator& op_;
  const Kernel& kernel_;
  Stream& stream_;
  int32_t count_ = 0;
  TVMFFIAny args_[kMaxArgs];
  DLTensor tensors_[kMaxArgs];
};

}  // namespace hp
