/* Convolutions between x (batch, groups * inner channels, spatial sizes) and y (batch, groups * outer channels, spatial
 * sizes). A convolution computes y from x, a transposed one x from y; each is the gradient of the other. The weight is
 * (groups * outer, inner, kernel). Three spatial dimensions, any strides. T: elements of all tensors.
 *
 * These kernels read all operands in position; convolution_cpu.c has faster ones for CPUs. */
#include "cpu_vectors.h"

typedef struct {
  hp_i64 batch, groups, outer, inner, with_bias;
  hp_i64 x_size[3], y_size[3], kernel[3], stride[3], padding[3], dilation[3];
  hp_i64 x[5], y[5], weight[5]; /* strides: batch or outer channel, channel, three spatial */
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

/* Position in y that tap `k` of the kernel reads for position `at` of x; negative if there is none. */
HP_FN hp_i64 source(hp_i64 at, hp_i64 k, hp_i64 stride, hp_i64 padding, hp_i64 dilation, hp_i64 size) {
  const hp_i64 position = at + padding - k * dilation;
  if (stride == 1) return position < size ? position : -1;
  return position < 0 || position % stride != 0 || position / stride >= size ? -1 : position / stride;
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

/* Gradient of the weight: one work-group per element. */
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
    hp_i64 left = e, at[3], position = 0, taken = 0;
    int inside = 1;
    for (int d = 2; d >= 0; --d) {
      at[d] = left % g.y_size[d];
      left /= g.y_size[d];
      const hp_i64 p = at[d] * g.stride[d] - g.padding[d] + k[d] * g.dilation[d];
      inside = inside && p >= 0 && p < g.x_size[d];
      position += p * g.x[2 + d];
      taken += at[d] * g.y[2 + d];
    }
    if (inside) sum += (T_a)T_get(from[left * g.x[0] + position]) * (T_a)T_get(by[left * g.y[0] + taken]);
  }
  part[hp_lid] = sum;
  hp_barrier();
  if (hp_lid == 0) {
    for (int l = 1; l < HP_LSIZE; ++l) sum += part[l];
    weight[outer * g.weight[0] + inner * g.weight[1] + k[0] * g.weight[2] + k[1] * g.weight[3] + k[2] * g.weight[4]] =
        T_put(sum);
  }
}

/* Gradient of the bias: one work-group per channel of y. */
HP_KERNEL(bias)(HP_GLOBAL T* bias, HP_GLOBAL const T* y, convolution g) {
  HP_LOCAL T_a part[HP_LSIZE];
  T_a sum = 0, lost = 0; /* Kahan summation over rows: there may be very many. */
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

/* Smallest i >= 0 with i * stride >= least. */
HP_FN hp_i64 first_position(hp_i64 least, hp_i64 stride) {
  return least <= 0 ? 0 : stride == 1 ? least : (least + stride - 1) / stride;
}

/* im2col: the inputs of every kernel tap as a matrix, with one row per channel and tap and one column per position of y
 * in `images` images. A work-group writes `per_group` rows. */
HP_KERNEL(columns)(HP_GLOBAL T* columns, HP_GLOBAL const T* x, convolution g, hp_i64 images, hp_i64 per_group) {
  const hp_i64 taps = g.kernel[0] * g.kernel[1] * g.kernel[2], rows = g.inner * taps;
  const hp_i64 width = images * g.y_size[0] * g.y_size[1] * g.y_size[2];
  const hp_i64 end = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  for (hp_i64 row = hp_group * per_group; row < end; ++row) {
    const hp_i64 kx = row % g.kernel[2], ky = row / g.kernel[2] % g.kernel[1];
    const hp_i64 kz = row % taps / (g.kernel[1] * g.kernel[2]);
    const hp_i64 z0 = kz * g.dilation[0] - g.padding[0], v0 = ky * g.dilation[1] - g.padding[1];
    const hp_i64 u0 = kx * g.dilation[2] - g.padding[2];
    HP_GLOBAL const T* const from = x + row / taps * g.x[1];
    HP_GLOBAL T* to = columns + row * width;
#if HP_LSIZE == 1
    /* Columns begin .. limit-1 of a line read x; the others read the padding. */
    hp_i64 begin = first_position(-u0, g.stride[2]), limit = first_position(g.x_size[2] - u0, g.stride[2]);
    begin = begin < g.y_size[2] ? begin : g.y_size[2];
    limit = limit < begin ? begin : limit < g.y_size[2] ? limit : g.y_size[2];
    const hp_i64 step = g.stride[2] * g.x[4];
    for (hp_i64 image = 0; image < images; ++image) {
      for (hp_i64 z = z0; z < z0 + g.y_size[0] * g.stride[0]; z += g.stride[0]) {
        for (hp_i64 v = v0; v < v0 + g.y_size[1] * g.stride[1]; v += g.stride[1], to += g.y_size[2]) {
          const int inside = z >= 0 && z < g.x_size[0] && v >= 0 && v < g.x_size[1];
          HP_GLOBAL const T* const line = from + image * g.x[0] + z * g.x[2] + v * g.x[3] + u0 * g.x[4];
          hp_i64 i = 0;
          for (; i < (inside ? begin : g.y_size[2]); ++i) to[i] = T_put((T_c)0);
          if (!inside) continue;
          if (step == 1) {
            for (; i < limit; ++i) to[i] = line[i];
          } else {
            for (; i < limit; ++i) to[i] = line[i * step];
          }
          for (; i < g.y_size[2]; ++i) to[i] = T_put((T_c)0);
        }
      }
    }
#else
    HP_FOR_LOCAL(i, width) {
      const hp_i64 u = u0 + i % g.y_size[2] * g.stride[2], v = v0 + i / g.y_size[2] % g.y_size[1] * g.stride[1];
      const hp_i64 rest = i / (g.y_size[1] * g.y_size[2]), z = z0 + rest % g.y_size[0] * g.stride[0];
      const int inside = z >= 0 && z < g.x_size[0] && v >= 0 && v < g.x_size[1] && u >= 0 && u < g.x_size[2];
      const hp_i64 position = rest / g.y_size[0] * g.x[0] + z * g.x[2] + v * g.x[3] + u * g.x[4];
      to[i] = inside ? from[position] : T_put((T_c)0);
    }
#endif
  }
}

/* col2im, the reverse: each position of x sums the entries of such a matrix, in T_a, that were read from it. A
 * work-group computes `per_group` lines of x; its work-items take turns along a line. */
HP_KERNEL(fold)(HP_GLOBAL T* x, HP_GLOBAL const T_a* columns, HP_GLOBAL const T* bias, convolution g, hp_i64 images,
                hp_i64 per_group) {
  enum { LINE = HP_LSIZE == 1 ? 256 : 1 };
  const hp_i64 taps = g.kernel[0] * g.kernel[1] * g.kernel[2], positions = g.y_size[0] * g.y_size[1] * g.y_size[2];
  const hp_i64 lines = images * g.inner * g.x_size[0] * g.x_size[1];
  const hp_i64 end = (hp_group + 1) * per_group < lines ? (hp_group + 1) * per_group : lines;
  for (hp_i64 line = hp_group * per_group; line < end; ++line) {
    const hp_i64 at_v = line % g.x_size[1], at_z = line / g.x_size[1] % g.x_size[0];
    const hp_i64 channel = line / (g.x_size[0] * g.x_size[1]) % g.inner;
    const hp_i64 image = line / (g.x_size[0] * g.x_size[1]) / g.inner;
    HP_GLOBAL T* const to = x + image * g.x[0] + channel * g.x[1] + at_z * g.x[2] + at_v * g.x[3];
    for (hp_i64 start = hp_lid; start < g.x_size[2]; start += HP_LSIZE * LINE) {
      const hp_i64 width = g.x_size[2] - start < LINE ? g.x_size[2] - start : LINE;
      T_a sums[LINE];
      for (hp_i64 i = 0; i < width; ++i) sums[i] = g.with_bias ? (T_a)T_get(bias[channel]) : (T_a)0;
      HP_GLOBAL const T_a* from = columns + channel * taps * images * positions + image * positions;
      for (hp_i64 kz = 0; kz < g.kernel[0]; ++kz) {
        const hp_i64 z = source(at_z, kz, g.stride[0], g.padding[0], g.dilation[0], g.y_size[0]);
        for (hp_i64 ky = 0; ky < g.kernel[1]; ++ky, from += g.kernel[2] * images * positions) {
          const hp_i64 v = source(at_v, ky, g.stride[1], g.padding[1], g.dilation[1], g.y_size[1]);
          if (z < 0 || v < 0) continue;
          for (hp_i64 kx = 0; kx < g.kernel[2]; ++kx) {
            HP_GLOBAL const T_a* const row = from + kx * images * positions + (z * g.y_size[1] + v) * g.y_size[2];
            /* Position i of y is added to sums[i * stride - shift]. */
            const hp_i64 shift = start + g.padding[2] - kx * g.dilation[2];
            hp_i64 i = first_position(shift, g.stride[2]), limit = first_position(width + shift, g.stride[2]);
            limit = limit < g.y_size[2] ? limit : g.y_size[2];
            if (g.stride[2] == 1) {
              for (; i < limit; ++i) sums[i - shift] += row[i];
            } else {
              for (; i < limit; ++i) sums[i * g.stride[2] - shift] += row[i];
            }
          }
        }
      }
      for (hp_i64 i = 0; i < width; ++i) to[(start + i) * g.x[4]] = T_put(sums[i]);
    }
  }
}
