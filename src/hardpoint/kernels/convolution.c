/* Convolutions between x (batch, groups * inner channels, sizes) and y (batch, groups * outer channels, sizes): y is
 * what an ordinary convolution of x gives, x what a transposed one of y gives; each is the gradient of the other. The
 * weight is (groups * outer, inner, kernel). Three spatial dimensions, any strides; T: all the elements.
 *
 * These kernels read everything in place; convolution_vectors.c has faster ones for CPUs. */
#include "tiles.h"

typedef struct {
  hp_i64 batch, groups, outer, inner, with_bias;
  hp_i64 x_size[3], y_size[3], kernel[3], stride[3], padding[3], dilation[3];
  hp_i64 x[5], y[5], weight[5]; /* strides: batch or outer channel, channel, three spatial ones */
} convolution;

HP_KERNEL(y)(HP_GLOBAL T* y, HP_GLOBAL const T* x, HP_GLOBAL const T* weight, HP_GLOBAL const T* bias, convolution g,
             hp_i64 elements) {
  HP_FOR_ELEMENTS(e, elements) {
    hp_i64 rest = e, at[3];
    for (int d = 2; d >= 0; --d) {
      at[d] = rest % g.y_size[d];
      rest /= g.y_size[d];
    }
    const hp_i64 channel = rest % (g.groups * g.outer), image = rest / (g.groups * g.outer);
    HP_GLOBAL const T* from = x + image * g.x[0] + channel / g.outer * g.inner * g.x[1];
    HP_GLOBAL const T* w = weight + channel * g.weight[0];
    T_a sum = 0;
    for (hp_i64 c = 0; c < g.inner; ++c, from += g.x[1], w += g.weight[1]) {
      for (hp_i64 kz = 0; kz < g.kernel[0]; ++kz) {
        const hp_i64 z = at[0] * g.stride[0] - g.padding[0] + kz * g.dilation[0];
        if (z < 0 || z >= g.x_size[0]) continue;
        for (hp_i64 ky = 0; ky < g.kernel[1]; ++ky) {
          const hp_i64 v = at[1] * g.stride[1] - g.padding[1] + ky * g.dilation[1];
          if (v < 0 || v >= g.x_size[1]) continue;
          for (hp_i64 kx = 0; kx < g.kernel[2]; ++kx) {
            const hp_i64 u = at[2] * g.stride[2] - g.padding[2] + kx * g.dilation[2];
            if (u < 0 || u >= g.x_size[2]) continue;
            sum += (T_a)T_get(from[z * g.x[2] + v * g.x[3] + u * g.x[4]]) *
                   (T_a)T_get(w[kz * g.weight[2] + ky * g.weight[3] + kx * g.weight[4]]);
          }
        }
      }
    }
    if (g.with_bias) sum += (T_a)T_get(bias[channel]);
    y[image * g.y[0] + channel * g.y[1] + at[0] * g.y[2] + at[1] * g.y[3] + at[2] * g.y[4]] = T_put(sum);
  }
}

/* Where in y the tap `k` of a kernel takes what ends up at `at` in x; negative: nowhere. */
HP_FN hp_i64 source(hp_i64 at, hp_i64 k, hp_i64 stride, hp_i64 padding, hp_i64 dilation, hp_i64 size) {
  const hp_i64 place = at + padding - k * dilation;
  return place < 0 || place % stride != 0 || place / stride >= size ? -1 : place / stride;
}

HP_KERNEL(x)(HP_GLOBAL T* x, HP_GLOBAL const T* y, HP_GLOBAL const T* weight, HP_GLOBAL const T* bias, convolution g,
             hp_i64 elements) {
  HP_FOR_ELEMENTS(e, elements) {
    hp_i64 rest = e, at[3];
    for (int d = 2; d >= 0; --d) {
      at[d] = rest % g.x_size[d];
      rest /= g.x_size[d];
    }
    const hp_i64 channel = rest % (g.groups * g.inner), image = rest / (g.groups * g.inner);
    const hp_i64 first = channel / g.inner * g.outer;
    HP_GLOBAL const T* from = y + image * g.y[0] + first * g.y[1];
    HP_GLOBAL const T* w = weight + first * g.weight[0] + channel % g.inner * g.weight[1];
    T_a sum = 0;
    for (hp_i64 c = 0; c < g.outer; ++c, from += g.y[1], w += g.weight[0]) {
      for (hp_i64 kz = 0; kz < g.kernel[0]; ++kz) {
        const hp_i64 z = source(at[0], kz, g.stride[0], g.padding[0], g.dilation[0], g.y_size[0]);
        if (z < 0) continue;
        for (hp_i64 ky = 0; ky < g.kernel[1]; ++ky) {
          const hp_i64 v = source(at[1], ky, g.stride[1], g.padding[1], g.dilation[1], g.y_size[1]);
          if (v < 0) continue;
          for (hp_i64 kx = 0; kx < g.kernel[2]; ++kx) {
            const hp_i64 u = source(at[2], kx, g.stride[2], g.padding[2], g.dilation[2], g.y_size[2]);
            if (u < 0) continue;
            sum += (T_a)T_get(from[z * g.y[2] + v * g.y[3] + u * g.y[4]]) *
                   (T_a)T_get(w[kz * g.weight[2] + ky * g.weight[3] + kx * g.weight[4]]);
          }
        }
      }
    }
    if (g.with_bias) sum += (T_a)T_get(bias[channel]);
    x[image * g.x[0] + channel * g.x[1] + at[0] * g.x[2] + at[1] * g.x[3] + at[2] * g.x[4]] = T_put(sum);
  }
}

/* One element of the weight a group. */
HP_KERNEL(weight)(HP_GLOBAL T* weight, HP_GLOBAL const T* x, HP_GLOBAL const T* y, convolution g) {
  hp_i64 rest = hp_group, k[3];
  for (int d = 2; d >= 0; --d) {
    k[d] = rest % g.kernel[d];
    rest /= g.kernel[d];
  }
  const hp_i64 inner = rest % g.inner, outer = rest / g.inner;
  HP_GLOBAL const T* const from = x + (outer / g.outer * g.inner + inner) * g.x[1];
  HP_GLOBAL const T* const by = y + outer * g.y[1];
  HP_LOCAL T_a part[HP_LSIZE];
  T_a sum = 0;
  HP_FOR_LOCAL(e, g.batch * g.y_size[0] * g.y_size[1] * g.y_size[2]) {
    hp_i64 left = e, at[3], place = 0, taken = 0;
    int inside = 1;
    for (int d = 2; d >= 0; --d) {
      at[d] = left % g.y_size[d];
      left /= g.y_size[d];
      const hp_i64 p = at[d] * g.stride[d] - g.padding[d] + k[d] * g.dilation[d];
      inside = inside && p >= 0 && p < g.x_size[d];
      place += p * g.x[2 + d];
      taken += at[d] * g.y[2 + d];
    }
    if (inside) sum += (T_a)T_get(from[left * g.x[0] + place]) * (T_a)T_get(by[left * g.y[0] + taken]);
  }
  part[hp_lid] = sum;
  hp_barrier();
  if (hp_lid == 0) {
    for (int l = 1; l < HP_LSIZE; ++l) sum += part[l];
    weight[outer * g.weight[0] + inner * g.weight[1] + k[0] * g.weight[2] + k[1] * g.weight[3] + k[2] * g.weight[4]] =
        T_put(sum);
  }
}

/* The sum of a channel of y, for each group one. */
HP_KERNEL(bias)(HP_GLOBAL T* bias, HP_GLOBAL const T* y, convolution g) {
  HP_LOCAL T_a part[HP_LSIZE];
  T_a sum = 0, lost = 0; /* There may be very many rows: what an addition loses is carried on. */
  y += hp_group * g.y[1];
  for (hp_i64 row = 0; row < g.batch * g.y_size[0] * g.y_size[1]; ++row) {
    HP_GLOBAL const T* const from = y + row / (g.y_size[0] * g.y_size[1]) * g.y[0] +
                                    row / g.y_size[1] % g.y_size[0] * g.y[2] + row % g.y_size[1] * g.y[3];
    T_a next = -lost;
#ifdef HP_VECTORS
    hp_i64 i = 0;
    if (g.y[4] == 1) {
      vs four = {0};
      for (; i + LANES <= g.y_size[2]; i += LANES) four += load_elements(from + i);
      next += total(four);
    }
    for (; i < g.y_size[2]; ++i) next += (T_a)T_get(from[i * g.y[4]]);
#else
    HP_FOR_LOCAL(i, g.y_size[2]) next += (T_a)T_get(from[i * g.y[4]]);
#endif
    const T_a longer = sum + next;
    lost = longer - sum - next;
    sum = longer;
  }
  part[hp_lid] = sum;
  hp_barrier();
  if (hp_lid == 0) {
    for (int l = 1; l < HP_LSIZE; ++l) sum += part[l];
    bias[hp_group] = T_put(sum);
  }
}
