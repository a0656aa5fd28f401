// add: out = x + y.
#include "walk.h"

namespace custom_cpu {

// The parameters are those of Paddle's own kernel (paddle/phi/kernels/elementwise_add_kernel.h). Paddle has worked out
// the shape of `out`; memory for it is the kernel's business. x and y are dense, but may differ in shape.
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
       [&](int64_t i, int64_t at_a, int64_t at_b) { result[i] = a[at_a] + b[at_b]; });
}

}  // namespace custom_cpu

// Kernel name, device type, layout, function, and the dtypes that it is made for. The second name is a word, not text.
PD_REGISTER_PLUGIN_KERNEL(add, custom_cpu, ALL_LAYOUT, custom_cpu::AddKernel, float, double, int32_t, int64_t) {}
