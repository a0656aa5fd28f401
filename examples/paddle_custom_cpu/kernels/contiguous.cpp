// contiguous: copies a view, such as a transpose or a slice, to dense memory. Paddle calls it before kernels that need
// dense operands. It is the only kernel without a CPU fallback: without it, transposes raise NotFound.
#include "walk.h"

namespace custom_cpu {

template <typename T, typename Context>
void ContiguousKernel(const Context& context, const phi::DenseTensor& input, phi::DenseTensor* out) {
  phi::DenseTensorMeta meta = input.meta();
  meta.strides = phi::DenseTensorMeta::calc_strides(meta.dims);
  meta.offset = 0;
  out->set_meta(meta);
  T* result = context.template Alloc<T>(out);
  const T* data = input.data<T>();
  const Extents strides = phi::vectorize(input.strides());
  walk(phi::vectorize(input.dims()), strides, strides,
       [&](int64_t i, int64_t offset, int64_t) { result[i] = data[offset]; });
}

}  // namespace custom_cpu

PD_REGISTER_PLUGIN_KERNEL(contiguous, custom_cpu, ALL_LAYOUT, custom_cpu::ContiguousKernel, bool, uint8_t, int8_t,
                          int16_t, int32_t, int64_t, float, double, phi::dtype::float16, phi::dtype::bfloat16,
                          phi::dtype::complex<float>, phi::dtype::complex<double>) {}
