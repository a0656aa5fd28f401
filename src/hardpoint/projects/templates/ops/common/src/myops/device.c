/* Device kernels in Hardpoint's portable dialect, a common subset of C, OpenCL C and CUDA C. T is the storage dtype,
 * T_c the compute dtype. */
#define SIGMOID(x) ((T_c)1 / ((T_c)1 + T_M(exp)(-(x))))

HP_KERNEL(silu_mul)(HP_GLOBAL T* out, HP_GLOBAL const T* gate, HP_GLOBAL const T* up, hp_i64 n) {
  HP_FOR_ELEMENTS(i, n) {
    const T_c x = T_get(gate[i]);
    out[i] = T_put(x * SIGMOID(x) * T_get(up[i]));
  }
}

HP_KERNEL(silu_mul_backward)(HP_GLOBAL T* gate_grad, HP_GLOBAL T* up_grad, HP_GLOBAL const T* grad,
                             HP_GLOBAL const T* gate, HP_GLOBAL const T* up, hp_i64 n) {
  HP_FOR_ELEMENTS(i, n) {
    const T_c x = T_get(gate[i]), y = T_get(up[i]), g = T_get(grad[i]), s = SIGMOID(x);
    gate_grad[i] = T_put(g * y * s * ((T_c)1 + x * ((T_c)1 - s)));
    up_grad[i] = T_put(g * x * s);
  }
}
