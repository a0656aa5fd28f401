/* Pooling of planes with up to three dimensions. T: elements. WINDOW: 0 strided windows, 1 adaptive, 2 fractional
 * (random positions). */
#include "index_math.h"

typedef struct {
  hp_i64 planes, in[3], out[3], kernel[3], stride[3], padding[3], dilation[3], include_pad, divisor;
} pool_geometry;

/* Outputs of a row processed together, for groups of one work-item. */
#define TILE 64

/* Window along one axis: inputs begin .. end-1, and the number of elements that an average divides by. */
typedef struct {
  hp_i64 begin, end, count;
} pool_window;

/* a / b for non-negative numbers; 32-bit operands use the faster 32-bit division on GPUs. */
HP_FN hp_i64 pool_quotient(hp_i64 a, hp_i64 b) {
#if HP_LSIZE > 1
  if ((((hp_u64)a | (hp_u64)b) >> 32) == 0) return (hp_u32)a / (hp_u32)b;
#endif
  return a / b;
}

HP_FN pool_window pool_at(hp_i64 o, int axis, pool_geometry g) {
  pool_window w;
#if WINDOW == 1
  w.begin = pool_quotient(o * g.in[axis], g.out[axis]);
  w.end = pool_quotient((o + 1) * g.in[axis] + g.out[axis] - 1, g.out[axis]);
  w.count = w.end - w.begin;
#else
  const hp_i64 step = g.dilation[axis], limit = g.in[axis] + g.padding[axis];
  w.begin = o * g.stride[axis] - g.padding[axis];
  w.end = w.begin + (g.kernel[axis] - 1) * step + 1;
  w.end = w.end < limit ? w.end : limit;
  w.count = w.end - w.begin;
  w.begin += w.begin < 0 ? pool_quotient(-w.begin + step - 1, step) * step : 0;
  w.end = w.end < g.in[axis] ? w.end : g.in[axis];
  w.count = g.include_pad ? w.count : w.end - w.begin;
#endif
  return w;
}

/* Outputs whose windows may contain inputs first .. last-1. */
HP_FN pool_window pool_touching(hp_i64 first, hp_i64 last, int axis, pool_geometry g) {
  pool_window w;
#if WINDOW == 1
  w.begin = pool_quotient(first * g.out[axis], g.in[axis]);
  w.end = pool_quotient(last * g.out[axis] + g.in[axis] - 1, g.in[axis]);
#else
  const hp_i64 at = first + g.padding[axis] - (g.kernel[axis] - 1) * g.dilation[axis] - 1;
  w.begin = at < 0 ? 0 : pool_quotient(at, g.stride[axis]) + 1;
  w.end = pool_quotient(last - 1 + g.padding[axis], g.stride[axis]) + 1;
#endif
  w.end = w.end < g.out[axis] ? w.end : g.out[axis];
  w.count = w.end - w.begin;
  return w;
}

/* Outputs of a row whose windows lie entirely inside it. Strided windows only. */
HP_FN pool_window pool_inside(pool_geometry g) {
  pool_window w;
  const hp_i64 room = g.in[2] + g.padding[2] - (g.kernel[2] - 1) * g.dilation[2] - 1;
  w.begin = (g.padding[2] + g.stride[2] - 1) / g.stride[2];
  w.end = room < 0 ? 0 : room / g.stride[2] + 1;
  w.end = w.end < g.out[2] ? w.end : g.out[2];
  w.begin = w.begin < w.end ? w.begin : w.end;
  w.count = w.end - w.begin;
  return w;
}

/* Window at a random position; the last one ends at the end of the input. */
HP_FN pool_window pool_fraction(hp_i64 o, T_c sample, int axis, pool_geometry g) {
  pool_window w;
  w.begin = g.in[axis] - g.kernel[axis];
  if (o < g.out[axis] - 1) {
    const T_c alpha = (T_c)w.begin / (T_c)(g.out[axis] - 1);
    w.begin = (hp_i64)(((T_c)o + sample) * alpha) - (hp_i64)(sample * alpha);
  }
  w.end = w.begin + g.kernel[axis];
  w.count = g.kernel[axis];
  return w;
}

HP_FN int pool_larger(T_c a, T_c best) { return a > best || a != a; }

/* Fractional windows of a row of outputs. Samples are (width, height) in two dimensions, (depth, height, width) in
 * three. */
#define POOL_SAMPLED(wy, wz)                                        \
  const pool_window wy = pool_fraction(oy, T_get(sample[1]), 1, g), \
                    wz = pool_fraction(oz, rank == 3 ? T_get(sample[0]) : (T_c)0, 0, g)

/* samples: one per dimension of a plane, for fractional windows only. */
HP_KERNEL(max)(HP_GLOBAL T* out, HP_GLOBAL hp_i64* indices, HP_GLOBAL const T* self, HP_GLOBAL const T* samples,
               hp_i64 rows, hp_i64 per_group, hp_i64 rank, pool_geometry g) {
#if HP_LSIZE > 1
  (void)per_group;
  HP_FOR_ELEMENTS(i, rows * g.out[2]) {
    hp_i64 plane = i;
    const hp_i64 ox = hp_next_coordinate(&plane, g.out[2]), oy = hp_next_coordinate(&plane, g.out[1]),
                 oz = hp_next_coordinate(&plane, g.out[0]);
    HP_GLOBAL const T* const p = self + plane * g.in[0] * g.in[1] * g.in[2];
#if WINDOW == 2
    HP_GLOBAL const T* const sample = samples + plane * rank;
    const pool_window wx = pool_fraction(ox, T_get(sample[rank == 3 ? 2 : 0]), 2, g);
    POOL_SAMPLED(wy, wz);
#else
    const pool_window wx = pool_at(ox, 2, g), wy = pool_at(oy, 1, g), wz = pool_at(oz, 0, g);
#endif
    /* Indices within a plane fit in 32 bits. */
    const hp_i32 width = (hp_i32)g.in[2], height = (hp_i32)g.in[1], left = (hp_i32)wx.begin, right = (hp_i32)wx.end;
    const hp_i32 step = (hp_i32)g.dilation[2];
    T_c best = T_LOWEST;
    hp_i32 index = ((hp_i32)wz.begin * height + (hp_i32)wy.begin) * width + left;
    for (hp_i32 z = (hp_i32)wz.begin; z < (hp_i32)wz.end; z += (hp_i32)g.dilation[0]) {
      for (hp_i32 y = (hp_i32)wy.begin; y < (hp_i32)wy.end; y += (hp_i32)g.dilation[1]) {
        const hp_i32 line = (z * height + y) * width;
        for (hp_i32 x = left; x < right; x += step) {
          const T_c v = T_get(p[line + x]);
          const int taken = pool_larger(v, best);
          best = taken ? v : best;
          index = taken ? line + x : index;
        }
      }
    }
    out[i] = T_put(best);
    indices[i] = index;
  }
#else
  const hp_i64 last = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  for (hp_i64 row = hp_group * per_group; row < last; ++row) {
    const hp_i64 oy = row % g.out[1], oz = row / g.out[1] % g.out[0], plane = row / (g.out[1] * g.out[0]);
    HP_GLOBAL const T* const p = self + plane * g.in[0] * g.in[1] * g.in[2];
    HP_GLOBAL T* const to = out + row * g.out[2];
    HP_GLOBAL hp_i64* const where = indices + row * g.out[2];
#if WINDOW == 2
    HP_GLOBAL const T* const sample = samples + plane * rank;
    POOL_SAMPLED(wy, wz);
#else
    const pool_window wy = pool_at(oy, 1, g), wz = pool_at(oz, 0, g);
#endif
    pool_window inside = {0, 0, 0};
#if WINDOW == 0
    inside = pool_inside(g);
    for (hp_i64 first = inside.begin; first < inside.end; first += TILE) {
      const int n = (int)(inside.end - first < TILE ? inside.end - first : TILE);
      const int left = (int)(first * g.stride[2] - g.padding[2]), step = (int)g.stride[2];
      T_c best[TILE];
      hp_i32 index[TILE];
      const int start = (int)((wz.begin * g.in[1] + wy.begin) * g.in[2]) + left;
      for (int j = 0; j < n; ++j) {
        best[j] = T_LOWEST;
        index[j] = start + j * step;
      }
      for (hp_i64 z = wz.begin; z < wz.end; z += g.dilation[0]) {
        for (hp_i64 y = wy.begin; y < wy.end; y += g.dilation[1]) {
          for (hp_i64 k = 0; k < g.kernel[2]; ++k) {
            const int base = (int)((z * g.in[1] + y) * g.in[2] + k * g.dilation[2]) + left;
            HP_GLOBAL const T* const from = p + base;
#define POOL_STEP(s)                              \
  HP_VECTORIZE                                    \
  for (int j = 0; j < n; ++j) {                   \
    const T_c v = T_get(from[j * (s)]);           \
    const int taken = (v > best[j]) | (v != v);   \
    best[j] = taken ? v : best[j];                \
    index[j] = taken ? base + j * (s) : index[j]; \
  }
            if (step == 1) {
              POOL_STEP(1)
            } else if (step == 2) {
              POOL_STEP(2)
            } else {
              POOL_STEP(step)
            }
          }
        }
      }
      for (int j = 0; j < n; ++j) {
        to[first + j] = T_put(best[j]);
        where[first + j] = index[j];
      }
    }
#endif
    HP_FOR_LOCAL(i, g.out[2] - inside.count) {
      const hp_i64 ox = i < inside.begin ? i : i + inside.count;
#if WINDOW == 2
      const pool_window wx = pool_fraction(ox, T_get(sample[rank == 3 ? 2 : 0]), 2, g);
#else
      const pool_window wx = pool_at(ox, 2, g);
#endif
      T_c best = T_LOWEST;
      hp_i64 index = (wz.begin * g.in[1] + wy.begin) * g.in[2] + wx.begin;
      for (hp_i64 z = wz.begin; z < wz.end; z += g.dilation[0]) {
        for (hp_i64 y = wy.begin; y < wy.end; y += g.dilation[1]) {
          for (hp_i64 x = wx.begin; x < wx.end; x += g.dilation[2]) {
            const hp_i64 at = (z * g.in[1] + y) * g.in[2] + x;
            const T_c v = T_get(p[at]);
            if (pool_larger(v, best)) {
              best = v;
              index = at;
            }
          }
        }
      }
      to[ox] = T_put(best);
      where[ox] = index;
    }
  }
#endif
}

/* Scatters each plane of `from` to the indices of a plane of `to`; the rest becomes zero. ADD: 1 to sum elements with
 * the same index. One work-item processes a plane, so that the order of additions is fixed; the barriers separate it
 * from the zeroing of the plane. */
HP_KERNEL(scatter)(HP_GLOBAL T* to, HP_GLOBAL const T* from, HP_GLOBAL const hp_i64* indices, hp_i64 planes,
                   hp_i64 per_group, hp_i64 to_size, hp_i64 from_size) {
  const hp_i64 last = (hp_group + 1) * per_group < planes ? (hp_group + 1) * per_group : planes;
  for (hp_i64 plane = hp_group * per_group; plane < last; ++plane) {
    HP_GLOBAL T* const t = to + plane * to_size;
    HP_GLOBAL const T* const f = from + plane * from_size;
    HP_GLOBAL const hp_i64* const where = indices + plane * from_size;
    HP_VECTORIZE
    HP_FOR_LOCAL(i, to_size) t[i] = (T)0;
    hp_barrier();
    if (hp_lid == 0) {
      for (hp_i64 i = 0; i < from_size; ++i) {
        const hp_i64 at = where[i];
        if (at < 0 || at >= to_size) continue;
        t[at] = ADD ? T_put(T_get(t[at]) + T_get(f[i])) : f[i];
      }
    }
    hp_barrier();
  }
}

/* Gradient of max pooling with strided windows, for groups of many work-items: each input element checks the windows
 * that may contain it for its own index. */
HP_KERNEL(gather)(HP_GLOBAL T* grad_input, HP_GLOBAL const T* grad, HP_GLOBAL const hp_i64* indices, hp_i64 elements,
                  pool_geometry g) {
  HP_FOR_ELEMENTS(i, elements) {
    hp_i64 plane = i;
    const hp_i64 x = hp_next_coordinate(&plane, g.in[2]), y = hp_next_coordinate(&plane, g.in[1]),
                 z = hp_next_coordinate(&plane, g.in[0]), index = (z * g.in[1] + y) * g.in[2] + x;
    const pool_window tx = pool_touching(x, x + 1, 2, g), ty = pool_touching(y, y + 1, 1, g),
                      tz = pool_touching(z, z + 1, 0, g);
    const hp_i64 first = plane * g.out[0] * g.out[1] * g.out[2];
    T_a total = 0;
    for (hp_i64 oz = tz.begin; oz < tz.end; ++oz) {
      for (hp_i64 oy = ty.begin; oy < ty.end; ++oy) {
        const hp_i64 line = first + (oz * g.out[1] + oy) * g.out[2];
        for (hp_i64 ox = tx.begin; ox < tx.end; ++ox) {
          if (indices[line + ox] == index) total += (T_a)T_get(grad[line + ox]);
        }
      }
    }
    grad_input[i] = T_put((T_c)total);
  }
}

/* Sum of a contiguous run; several lanes let the compiler vectorize it. */
HP_FN T_a pool_sum(HP_GLOBAL const T* p, hp_i64 n) {
  T_a total = 0;
  hp_i64 i = 0;
#if HP_LSIZE == 1
  if (n >= 32) {
    T_a lane[32];
    for (int j = 0; j < 32; ++j) lane[j] = 0;
    for (; i + 32 <= n; i += 32) {
      for (int j = 0; j < 32; ++j) lane[j] += (T_a)T_get(p[i + j]);
    }
    for (int j = 0; j < 32; ++j) total += lane[j];
  }
#endif
  for (; i < n; ++i) total += (T_a)T_get(p[i]);
  return total;
}

HP_KERNEL(average)(HP_GLOBAL T* out, HP_GLOBAL const T* self, hp_i64 rows, hp_i64 per_group, pool_geometry g) {
  const hp_i64 last = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  for (hp_i64 row = hp_group * per_group; row < last; ++row) {
    const hp_i64 oy = row % g.out[1], oz = row / g.out[1] % g.out[0], plane = row / (g.out[1] * g.out[0]);
    const pool_window wy = pool_at(oy, 1, g), wz = pool_at(oz, 0, g);
    HP_GLOBAL const T* const p = self + plane * g.in[0] * g.in[1] * g.in[2];
    HP_GLOBAL T* const to = out + row * g.out[2];
    const int none = wz.begin >= wz.end || wy.begin >= wy.end;
    pool_window inside = {0, 0, 0};
#if HP_LSIZE == 1 && WINDOW == 0
    inside = pool_inside(g);
    const T_a full = (T_a)(g.divisor ? g.divisor : wz.count * wy.count * g.kernel[2]);
    for (hp_i64 first = inside.begin; first < inside.end; first += TILE) {
      const int n = (int)(inside.end - first < TILE ? inside.end - first : TILE), step = (int)g.stride[2];
      T_a total[TILE];
      for (int j = 0; j < n; ++j) total[j] = 0;
      for (hp_i64 z = wz.begin; z < wz.end; ++z) {
        for (hp_i64 y = wy.begin; y < wy.end; ++y) {
          for (hp_i64 k = 0; k < g.kernel[2]; ++k) {
            HP_GLOBAL const T* const from = p + (z * g.in[1] + y) * g.in[2] + k + first * g.stride[2] - g.padding[2];
            if (step == 1) {
              for (int j = 0; j < n; ++j) total[j] += (T_a)T_get(from[j]);
            } else if (step == 2) {
              for (int j = 0; j < n; ++j) total[j] += (T_a)T_get(from[2 * j]);
            } else {
              for (int j = 0; j < n; ++j) total[j] += (T_a)T_get(from[j * step]);
            }
          }
        }
      }
      for (int j = 0; j < n; ++j) to[first + j] = none ? T_put((T_c)0) : T_put((T_c)(total[j] / full));
    }
#endif
    HP_FOR_LOCAL(i, g.out[2] - inside.count) {
      const hp_i64 ox = i < inside.begin ? i : i + inside.count;
      const pool_window wx = pool_at(ox, 2, g);
      const hp_i64 width = wx.end - wx.begin, height = wy.end - wy.begin;
      T_a total = 0;
      for (hp_i64 z = wz.begin; z < wz.end; ++z) {
        HP_GLOBAL const T* const from = p + (z * g.in[1] + wy.begin) * g.in[2] + wx.begin;
        if (width == g.in[2]) {
          total += pool_sum(from, width * height); /* whole rows are contiguous */
        } else {
          for (hp_i64 y = 0; y < height; ++y) total += pool_sum(from + y * g.in[2], width);
        }
      }
      const T_a by = (T_a)(g.divisor ? g.divisor : wz.count * wy.count * wx.count);
      to[ox] = none || width <= 0 ? T_put((T_c)0) : T_put((T_c)(total / by));
    }
  }
}

/* Gradient of the input, row by row. Each element gathers from the windows that contain it. */
HP_KERNEL(average_backward)(HP_GLOBAL T* grad_input, HP_GLOBAL const T* grad, hp_i64 rows, hp_i64 per_group,
                            pool_geometry g) {
  const hp_i64 last = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  for (hp_i64 row = hp_group * per_group; row < last; ++row) {
    const hp_i64 y = row % g.in[1], z = row / g.in[1] % g.in[0], plane = row / (g.in[1] * g.in[0]);
    HP_GLOBAL const T* const p = grad + plane * g.out[0] * g.out[1] * g.out[2];
    HP_GLOBAL T* const to = grad_input + row * g.in[2];
    const pool_window ty = pool_touching(y, y + 1, 1, g), tz = pool_touching(z, z + 1, 0, g);
#if HP_LSIZE == 1
    for (hp_i64 first = 0; first < g.in[2]; first += TILE) {
      const hp_i64 stop = first + TILE < g.in[2] ? first + TILE : g.in[2];
      const pool_window tx = pool_touching(first, stop, 2, g);
      T_a total[TILE];
      for (int j = 0; j < TILE; ++j) total[j] = 0;
#else
    HP_FOR_LOCAL(first, g.in[2]) {
      const hp_i64 stop = first + 1;
      const pool_window tx = pool_touching(first, stop, 2, g);
      T_a total[1] = {0};
#endif
      for (hp_i64 oz = tz.begin; oz < tz.end; ++oz) {
        const pool_window wz = pool_at(oz, 0, g);
        if (z < wz.begin || z >= wz.end) continue;
        for (hp_i64 oy = ty.begin; oy < ty.end; ++oy) {
          const pool_window wy = pool_at(oy, 1, g);
          if (y < wy.begin || y >= wy.end) continue;
          HP_GLOBAL const T* const from = p + (oz * g.out[1] + oy) * g.out[2];
          for (hp_i64 ox = tx.begin; ox < tx.end; ++ox) {
            const pool_window wx = pool_at(ox, 2, g);
            const T_a by = (T_a)(g.divisor ? g.divisor : wz.count * wy.count * wx.count);
            const T_a share = (T_a)T_get(from[ox]) / by;
            const hp_i64 a = wx.begin > first ? wx.begin : first, b = wx.end < stop ? wx.end : stop;
            for (hp_i64 x = a; x < b; ++x) total[x - first] += share;
          }
        }
      }
      for (hp_i64 x = first; x < stop; ++x) to[x] = T_put((T_c)total[x - first]);
    }
  }
}
