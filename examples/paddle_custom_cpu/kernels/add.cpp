// add: out = x + y.
#include "walk.h"

namespace custom_cpu {

// Same parameters as Paddle's kernel (paddle/phi/kernels/elementwise_add_kernel.h). Paddle has inferred the shape of
// `out`; the kernel allocates it. x and y are dense, but may differ in shape.
template <typename T, typename Context>
void AddKernel(const Context& context, const phi::DenseTensor& x, const phi::DenseTensor& y, phi::DenseTensor* out) {
  T* result = context.template Alloc<T>(out);
  const T* a = x.data<T>();
  const T* b = y.data<T>();
  if (x.dims() == y.dims()) {
    for (int64_t i = 0; i < out->numel(); ++i) result[i] = a[i] + b[i];
    return;
  }
  const int rank = out->dims().size();
  walk(phi::vectorize(out->dims()), broadcast_strides(x.dims(), rank), broadcast_strides(y.dims(), rank),
       [&](int64_t i, int64_t offset_a, int64_t offset_b) { result[i] = a[offset_a] + b[offset_b]; });
}

}  // namespace custom_cpu

// Kernel name, device type (an identifier, not a string), layout, function, and dtypes.
PD_REGISTER_PLUGIN_KERNEL(add, custom_cpu, ALL_LAYOUT, custom_cpu::AddKernel, float, double, int32_t, int64_t) {}
