/* tril and triu, unfold's gradient, im2col and col2im; copy.c has strided copies. T: elements, or integers of their
 * size where only bytes move. */
HP_KERNEL(triangle)(HP_GLOBAL T* out, HP_GLOBAL const T* self, hp_i64 rows, hp_i64 height, hp_i64 columns,
                    hp_i64 diagonal, hp_i64 words, hp_i64 per_group) {
  const hp_i64 end = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows, width = columns * words;
  for (hp_i64 row = hp_group * per_group; row < end; ++row) {
    /* Elements before the edge are copied (lower) or zeroed (upper). */
    hp_i64 edge = row % height + diagonal + (UPPER ? 0 : 1);
    edge = edge < 0 ? 0 : edge > columns ? columns : edge;
    HP_GLOBAL T* const to = out + row * width;
    HP_GLOBAL const T* const from = self + row * width;
    HP_VECTORIZE
    HP_FOR_LOCAL(j, edge * words) to[j] = UPPER ? (T)0 : from[j];
    HP_VECTORIZE
    for (hp_i64 j = edge * words + hp_lid; j < width; j += HP_LSIZE) to[j] = UPPER ? from[j] : (T)0;
  }
}

/* out: (outer, length, inner), grad: (outer, windows, inner, size). */
HP_KERNEL(unfold_backward)(HP_GLOBAL T* out, HP_GLOBAL const T* grad, hp_i64 elements, hp_i64 length, hp_i64 inner,
                           hp_i64 windows, hp_i64 size, hp_i64 step) {
  HP_FOR_ELEMENTS(i, elements) {
    const hp_i64 column = i % inner, at = i / inner % length, outer = i / inner / length;
    hp_i64 first = at < size ? 0 : (at - size) / step + 1, last = at / step;
    last = last < windows - 1 ? last : windows - 1;
    T_a total = 0;
    for (hp_i64 w = first; w <= last; ++w) {
      total += (T_a)T_get(grad[((outer * windows + w) * inner + column) * size + at - w * step]);
    }
    out[i] = T_put(total);
  }
}

typedef struct {
  hp_i64 channels, in[2], out[2], kernel[2], dilation[2], padding[2], stride[2];
} window_geometry;

/* One row of the column matrix at a time: the same position of every window. */
HP_KERNEL(im2col)(HP_GLOBAL T* out, HP_GLOBAL const T* self, hp_i64 rows, hp_i64 per_group, window_geometry g) {
  const hp_i64 end = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  for (hp_i64 row = hp_group * per_group; row < end; ++row) {
    const hp_i64 kw = row % g.kernel[1], kh = row / g.kernel[1] % g.kernel[0];
    HP_GLOBAL const T* const plane = self + row / (g.kernel[0] * g.kernel[1]) * g.in[0] * g.in[1];
    HP_GLOBAL T* const to = out + row * g.out[0] * g.out[1];
    HP_FOR_LOCAL(i, g.out[0] * g.out[1]) {
      const hp_i64 y = i / g.out[1] * g.stride[0] - g.padding[0] + kh * g.dilation[0];
      const hp_i64 x = i % g.out[1] * g.stride[1] - g.padding[1] + kw * g.dilation[1];
      const int inside = y >= 0 && y < g.in[0] && x >= 0 && x < g.in[1];
      to[i] = inside ? plane[y * g.in[1] + x] : (T)0;
    }
  }
}

/* One image row at a time; each element sums its entries of the column matrix. */
HP_KERNEL(col2im)(HP_GLOBAL T* out, HP_GLOBAL const T* columns, hp_i64 rows, hp_i64 per_group, window_geometry g) {
  const hp_i64 end = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  for (hp_i64 row = hp_group * per_group; row < end; ++row) {
    const hp_i64 y = row % g.in[0], plane = row / g.in[0];
    HP_FOR_LOCAL(x, g.in[1]) {
      T_a total = 0;
      for (hp_i64 kh = 0; kh < g.kernel[0]; ++kh) {
        const hp_i64 top = y + g.padding[0] - kh * g.dilation[0], oy = top / g.stride[0];
        if (top < 0 || oy * g.stride[0] != top || oy >= g.out[0]) continue;
        for (hp_i64 kw = 0; kw < g.kernel[1]; ++kw) {
          const hp_i64 left = x + g.padding[1] - kw * g.dilation[1], ox = left / g.stride[1];
          if (left < 0 || ox * g.stride[1] != left || ox >= g.out[1]) continue;
          const hp_i64 column = (plane * g.kernel[0] + kh) * g.kernel[1] + kw;
          total += (T_a)T_get(columns[(column * g.out[0] + oy) * g.out[1] + ox]);
        }
      }
      out[row * g.in[1] + x] = T_put(total);
    }
  }
}
