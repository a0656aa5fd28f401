// relu and its gradient relu_grad. Without a _grad kernel, Paddle runs the backward pass on the CPU.
#include "phi.h"

namespace custom_cpu {

template <typename T, typename Context>
void ReluKernel(const Context& context, const phi::DenseTensor& x, phi::DenseTensor* out) {
  T* result = context.template Alloc<T>(out);
  const T* a = x.data<T>();
  // This comparison propagates NaN.
  for (int64_t i = 0; i < x.numel(); ++i) result[i] = a[i] < T(0) ? T(0) : a[i];
}

// Computed from the forward result and the incoming gradient.
template <typename T, typename Context>
void ReluGradKernel(const Context& context, const phi::DenseTensor& out, const phi::DenseTensor& out_grad,
                    phi::DenseTensor* x_grad) {
  T* result = context.template Alloc<T>(x_grad);
  const T* y = out.data<T>();
  const T* g = out_grad.data<T>();
  for (int64_t i = 0; i < out.numel(); ++i) result[i] = y[i] > T(0) ? g[i] : T(0);
}

}  // namespace custom_cpu

PD_REGISTER_PLUGIN_KERNEL(relu, custom_cpu, ALL_LAYOUT, custom_cpu::ReluKernel, float, double) {}
PD_REGISTER_PLUGIN_KERNEL(relu_grad, custom_cpu, ALL_LAYOUT, custom_cpu::ReluGradKernel, float, double) {}
