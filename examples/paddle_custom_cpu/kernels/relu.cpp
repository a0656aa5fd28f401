// relu, and relu_grad, which its backward pass calls. A kernel without its _grad trains, too: Paddle then takes the
// CPU.
#include "phi.h"

namespace custom_cpu {

template <typename T, typename Context>
void ReluKernel(const Context& context, const phi::DenseTensor& x, phi::DenseTensor* out) {
  T* result = context.template Alloc<T>(out);
  const T* a = x.data<T>();
  // Written so that a NaN stays one.
  for (int64_t i = 0; i < x.numel(); ++i) result[i] = a[i] < T(0) ? T(0) : a[i];
}

// The gradient is made from the result of the forward pass and the gradient that comes in.
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
