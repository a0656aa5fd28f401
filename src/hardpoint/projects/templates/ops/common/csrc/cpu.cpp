// CPU kernels: framework-independent TVM-FFI functions, found by name.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cmath>

namespace {

using tvm::ffi::TensorView;

template <class T>
T* data(const TensorView& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}

// Calls `body` with a value of the tensor's dtype.
template <class Body>
void for_dtype(const TensorView& tensor, Body body) {
  const DLDataType dtype = tensor.dtype();
  if (dtype.code == kDLFloat && dtype.bits == 32) return body(float());
  if (dtype.code == kDLFloat && dtype.bits == 64) return body(double());
  TVM_FFI_THROW(NotImplementedError) << "the CPU kernels support float32 and float64";
}

void silu_mul(TensorView out, TensorView gate, TensorView up) {
  for_dtype(out, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0, n = out.numel(); i < n; ++i) {
      const T x = data<T>(gate)[i];
      data<T>(out)[i] = x * sigmoid(x) * data<T>(up)[i];
    }
  });
}

void silu_mul_backward(TensorView gate_grad, TensorView up_grad, TensorView grad, TensorView gate, TensorView up) {
  for_dtype(grad, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0, n = grad.numel(); i < n; ++i) {
      const T x = data<T>(gate)[i], y = data<T>(up)[i], g = data<T>(grad)[i], s = sigmoid(x);
      data<T>(gate_grad)[i] = g * y * s * (1 + x * (1 - s));
      data<T>(up_grad)[i] = g * x * s;
    }
  });
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(silu_mul, silu_mul)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(silu_mul_backward, silu_mul_backward)
