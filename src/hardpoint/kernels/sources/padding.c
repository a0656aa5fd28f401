/* Reflection and replication padding. REFLECT: 1 mirrors without repeating the edge, 0 repeats the edge. T: elements,
 * or integers of their size where only bytes move. */
typedef struct {
  hp_i64 planes, in[3], out[3], before[3];
} pad_geometry;

/* Input position of output o. */
HP_FN hp_i64 pad_source(hp_i64 o, hp_i64 before, hp_i64 size) {
  const hp_i64 t = o - before;
#ifdef REFLECT
  if (REFLECT) return t < 0 ? -t : t < size ? t : 2 * (size - 1) - t;
#endif
  return t < 0 ? 0 : t < size ? t : size - 1;
}

/* Outputs copied from input i: the k-th run of them, k = 0 .. 2. */
HP_FN void pad_targets(hp_i64 i, int k, hp_i64 before, hp_i64 size, hp_i64 out, hp_i64* first, hp_i64* last) {
  hp_i64 a = before + i, b = a;
#ifdef REFLECT
  if (REFLECT) {
    if (k == 1) a = b = i > 0 ? before - i : -1;
    if (k == 2) a = b = i < size - 1 ? before + 2 * (size - 1) - i : -1;
  } else
#endif
  {
    if (k > 0) a = 0, b = -1;
    if (k == 1 && i == 0) b = before - 1;
    if (k == 2 && i == size - 1) a = before + size, b = out - 1;
  }
  *first = a < 0 ? 0 : a;
  *last = b < out ? b : out - 1;
}

/* One output row at a time. An element is `words` of T. */
HP_KERNEL(forward)(HP_GLOBAL T* out, HP_GLOBAL const T* self, hp_i64 rows, hp_i64 per_group, hp_i64 words,
                   pad_geometry g) {
  const hp_i64 end = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  for (hp_i64 row = hp_group * per_group; row < end; ++row) {
    const hp_i64 y = pad_source(row % g.out[1], g.before[1], g.in[1]);
    const hp_i64 z = pad_source(row / g.out[1] % g.out[0], g.before[0], g.in[0]);
    const hp_i64 plane = row / (g.out[1] * g.out[0]);
    HP_GLOBAL const T* const from = self + ((plane * g.in[0] + z) * g.in[1] + y) * g.in[2] * words;
    HP_GLOBAL T* const to = out + row * g.out[2] * words;
    hp_i64 left = g.before[2] > 0 ? g.before[2] : 0, right = g.before[2] + g.in[2];
    right = right < g.out[2] ? right : g.out[2];
    right = right > left ? right : left;
    const hp_i64 shift = g.before[2] * words;
    HP_VECTORIZE
    for (hp_i64 j = left * words + hp_lid; j < right * words; j += HP_LSIZE) to[j] = from[j - shift];
    HP_FOR_LOCAL(j, (g.out[2] - right + left) * words) {
      const hp_i64 position = j / words < left ? j / words : j / words - left + right;
      to[position * words + j % words] = from[pad_source(position, g.before[2], g.in[2]) * words + j % words];
    }
  }
}

/* Gradient of the input, row by row. Each element gathers from its copies. */
HP_KERNEL(backward)(HP_GLOBAL T* grad_input, HP_GLOBAL const T* grad, hp_i64 rows, hp_i64 per_group, pad_geometry g) {
  const hp_i64 end = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  for (hp_i64 row = hp_group * per_group; row < end; ++row) {
    const hp_i64 y = row % g.in[1], z = row / g.in[1] % g.in[0], plane = row / (g.in[1] * g.in[0]);
    HP_GLOBAL T* const to = grad_input + row * g.in[2];
    HP_FOR_LOCAL(x, g.in[2]) {
      T_a total = 0;
      for (int kz = 0; kz < 3; ++kz) {
        hp_i64 z0, z1;
        pad_targets(z, kz, g.before[0], g.in[0], g.out[0], &z0, &z1);
        for (hp_i64 oz = z0; oz <= z1; ++oz) {
          for (int ky = 0; ky < 3; ++ky) {
            hp_i64 y0, y1;
            pad_targets(y, ky, g.before[1], g.in[1], g.out[1], &y0, &y1);
            for (hp_i64 oy = y0; oy <= y1; ++oy) {
              HP_GLOBAL const T* const from = grad + ((plane * g.out[0] + oz) * g.out[1] + oy) * g.out[2];
              for (int kx = 0; kx < 3; ++kx) {
                hp_i64 x0, x1;
                pad_targets(x, kx, g.before[2], g.in[2], g.out[2], &x0, &x1);
                for (hp_i64 ox = x0; ox <= x1; ++ox) total += (T_a)T_get(from[ox]);
              }
            }
          }
        }
      }
      to[x] = T_put(total);
    }
  }
}
