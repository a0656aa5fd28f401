// Kernels: TVM-FFI functions in destination-passing style, found by name. Launch yours on the stream
// TVMFFIEnvGetStream(HP_DLPACK_DEVICE_TYPE, device).
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

namespace {

using tvm::ffi::AnyView;
using tvm::ffi::TensorView;

// A float32 tensor. For anything else, such as a number, the call is declined, and the next tier takes it.
TensorView floats(AnyView argument) {
  const auto tensor = argument.as<TensorView>();
  if (!tensor || tensor->dtype().code != kDLFloat || tensor->dtype().bits != 32)
    TVM_FFI_THROW(NotImplementedError) << "mychip supports float32 tensors";
  return *tensor;
}

float* data(const TensorView& tensor) { return static_cast<float*>(tensor.data_ptr()); }

// out = a + alpha * b, where b may be a number. Tensors are contiguous and have one shape.
void add(AnyView out_argument, AnyView a_argument, AnyView b_argument, double alpha) {
  const TensorView out = floats(out_argument), a = floats(a_argument);
  const auto number = b_argument.try_cast<double>();
  const float* b = number ? nullptr : data(floats(b_argument));
  const float scale = static_cast<float>(alpha), addend = static_cast<float>(number.value_or(0));
  const int64_t count = out.numel();
  for (int64_t i = 0; i < count; ++i) data(out)[i] = data(a)[i] + scale * (b ? b[i] : addend);
}

// out = a @ b, for matrices or batches of matrices.
void matmul(AnyView out_argument, AnyView a_argument, AnyView b_argument) {
  const TensorView out = floats(out_argument), a = floats(a_argument), b = floats(b_argument);
  const int64_t m = out.size(-2), n = out.size(-1), k = a.size(-1);
  const int64_t batches = out.ndim() == 3 ? out.size(0) : 1;
  for (int64_t batch = 0; batch < batches; ++batch) {
    float* const to = data(out) + batch * m * n;
    const float *x = data(a) + batch * m * k, *y = data(b) + batch * k * n;
    for (int64_t i = 0; i < m * n; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < k; ++j) sum += x[i / n * k + j] * y[j * n + i % n];
      to[i] = sum;
    }
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(add, add)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(matmul, matmul)
