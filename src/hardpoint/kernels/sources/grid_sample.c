/* Samples an input at the coordinates of a grid. T: elements. AXES: 2 or 3. MODE: 0 linear, 1 nearest, 2 cubic. PAD,
 * the values outside the input: 0 zeros, 1 border, 2 reflection. */
typedef struct {
  hp_i64 batch, channels, in[3], out[3], align;
} grid_geometry;

#if MODE == 2
#define TAPS 4
#elif MODE == 1
#define TAPS 1
#else
#define TAPS 2
#endif

/* Taps of a sample along one axis: input indices, weights, and derivatives of the weights with respect to the grid. A
 * tap outside the input has index 0 and weight 0. */
typedef struct {
  hp_i64 index[TAPS];
  T_c weight[TAPS], slope[TAPS];
} grid_taps;

/* Maps NaN and huge coordinates to one outside the input. */
HP_FN T_c grid_sane(T_c c) { return c > (T_c)-1e9f && c < (T_c)1e9f ? c : (T_c)-100; }

HP_FN T_c grid_floor(T_c c) {
  const T_c whole = (T_c)(hp_i64)c;
  return whole > c ? whole - 1 : whole;
}

/* Applies the padding mode to coordinate c; multiplies *slope by the derivative. */
HP_FN T_c grid_padded(T_c c, hp_i64 size, hp_i64 align, T_c* slope) {
#if PAD == 2
  const T_c low = align ? (T_c)0 : (T_c)-0.5f, span = (T_c)(align ? size - 1 : size);
  if (span == 0) {
    *slope = 0;
    c = 0;
  } else {
    T_c d = grid_sane(c) - low;
    if (d < 0) {
      d = -d;
      *slope = -*slope;
    }
    const T_c flips = grid_floor(d / span), extra = d - flips * span;
    const int odd = (int)((hp_i64)flips & 1);
    c = odd ? low + span - extra : low + extra;
    *slope = odd ? -*slope : *slope;
  }
#endif
#if PAD != 0
  if (!(c > 0)) {
    *slope = 0;
    return 0;
  }
  if (c >= (T_c)(size - 1)) {
    *slope = 0;
    return (T_c)(size - 1);
  }
#endif
  return c;
}

HP_FN void grid_set(grid_taps* t, int k, hp_i64 index, hp_i64 size, T_c weight, T_c slope) {
  const int inside = index >= 0 && index < size;
  t->index[k] = inside ? index : 0;
  t->weight[k] = inside ? weight : (T_c)0;
  t->slope[k] = inside ? slope : (T_c)0;
}

HP_FN grid_taps grid_at(T_c coordinate, hp_i64 size, hp_i64 align) {
  grid_taps t;
  T_c slope = (T_c)(align ? size - 1 : size) / 2;
  T_c c = align ? (coordinate + 1) / 2 * (T_c)(size - 1) : ((coordinate + 1) * (T_c)size - 1) / 2;
#if MODE == 2
  c = grid_sane(c);
  const T_c first = grid_floor(c), s = c - first, a = (T_c)-0.75f, u = s + 1, v = (T_c)1 - s, w = (T_c)2 - s;
  const T_c weight[4] = {((a * u - 5 * a) * u + 8 * a) * u - 4 * a, ((a + 2) * s - (a + 3)) * s * s + 1,
                         ((a + 2) * v - (a + 3)) * v * v + 1, ((a * w - 5 * a) * w + 8 * a) * w - 4 * a};
  const T_c change[4] = {(3 * a * u - 10 * a) * u + 8 * a, (3 * (a + 2) * s - 2 * (a + 3)) * s,
                         -(3 * (a + 2) * v - 2 * (a + 3)) * v, -((3 * a * w - 10 * a) * w + 8 * a)};
  for (int k = 0; k < 4; ++k) {
    T_c unused = 1;
    const T_c at = grid_padded(first - 1 + (T_c)k, size, align, &unused);
    grid_set(&t, k, (hp_i64)at, size, weight[k], change[k] * slope);
  }
#else
  c = grid_sane(grid_padded(c, size, align, &slope));
  const T_c first = grid_floor(c), s = c - first;
#if MODE == 1
  /* Ties go to the even neighbor. */
  const hp_i64 below = (hp_i64)first;
  const int up = s > (T_c)0.5f || (s == (T_c)0.5f && (below & 1));
  grid_set(&t, 0, below + up, size, 1, 0);
#else
  grid_set(&t, 0, (hp_i64)first, size, (T_c)1 - s, -slope);
  grid_set(&t, 1, (hp_i64)first + 1, size, s, slope);
#endif
#endif
  return t;
}

/* Taps of all axes, slowest axis first. With two axes, the first one has a single tap. */
HP_FN void grid_all(HP_GLOBAL const T* coordinate, grid_geometry g, grid_taps* t) {
  t[2] = grid_at(T_get(coordinate[0]), g.in[2], g.align);
  t[1] = grid_at(T_get(coordinate[1]), g.in[1], g.align);
#if AXES == 3
  t[0] = grid_at(T_get(coordinate[2]), g.in[0], g.align);
#else
  t[0].index[0] = 0;
  t[0].weight[0] = 1;
#endif
}
#define DEEP (AXES == 3 ? TAPS : 1)

HP_KERNEL(forward)(HP_GLOBAL T* out, HP_GLOBAL const T* self, HP_GLOBAL const T* grid, hp_i64 per_group,
                   grid_geometry g) {
  const hp_i64 area = g.in[0] * g.in[1] * g.in[2], out_area = g.out[0] * g.out[1] * g.out[2];
  const hp_i64 samples = g.batch * out_area, begin = hp_group * per_group;
  const hp_i64 end = begin + per_group < samples ? begin + per_group : samples;
  for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE) {
    const hp_i64 n = i / out_area;
    grid_taps t[3];
    grid_all(grid + i * AXES, g, t);
    for (hp_i64 c = 0; c < g.channels; ++c) {
      HP_GLOBAL const T* const p = self + (n * g.channels + c) * area;
      T_c total = 0;
      for (int kz = 0; kz < DEEP; ++kz) {
        for (int ky = 0; ky < TAPS; ++ky) {
          const T_c weight = t[0].weight[kz] * t[1].weight[ky];
          HP_GLOBAL const T* const row = p + (t[0].index[kz] * g.in[1] + t[1].index[ky]) * g.in[2];
          for (int kx = 0; kx < TAPS; ++kx) {
            const T_c w = weight * t[2].weight[kx];
            total += w != 0 ? w * T_get(row[t[2].index[kx]]) : (T_c)0;
          }
        }
      }
      out[(n * g.channels + c) * out_area + i % out_area] = T_put(total);
    }
  }
}

HP_KERNEL(backward_grid)(HP_GLOBAL T* grad_grid, HP_GLOBAL const T* grad, HP_GLOBAL const T* self,
                         HP_GLOBAL const T* grid, hp_i64 per_group, grid_geometry g) {
  const hp_i64 area = g.in[0] * g.in[1] * g.in[2], out_area = g.out[0] * g.out[1] * g.out[2];
  const hp_i64 samples = g.batch * out_area, begin = hp_group * per_group;
  const hp_i64 end = begin + per_group < samples ? begin + per_group : samples;
  for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE) {
    const hp_i64 n = i / out_area;
    grid_taps t[3];
    grid_all(grid + i * AXES, g, t);
    T_c sums[3] = {0, 0, 0};
    for (hp_i64 c = 0; c < g.channels; ++c) {
      HP_GLOBAL const T* const p = self + (n * g.channels + c) * area;
      const T_c given = T_get(grad[(n * g.channels + c) * out_area + i % out_area]);
      for (int kz = 0; kz < DEEP; ++kz) {
        for (int ky = 0; ky < TAPS; ++ky) {
          HP_GLOBAL const T* const row = p + (t[0].index[kz] * g.in[1] + t[1].index[ky]) * g.in[2];
          for (int kx = 0; kx < TAPS; ++kx) {
            const T_c v = given * T_get(row[t[2].index[kx]]);
            sums[0] += v * t[2].slope[kx] * t[1].weight[ky] * t[0].weight[kz];
            sums[1] += v * t[2].weight[kx] * t[1].slope[ky] * t[0].weight[kz];
#if AXES == 3
            sums[2] += v * t[2].weight[kx] * t[1].weight[ky] * t[0].slope[kz];
#endif
          }
        }
      }
    }
    for (int a = 0; a < AXES; ++a) grad_grid[i * AXES + a] = T_put(sums[a]);
  }
}

/* A work-group handles whole planes. One work-item processes all samples, so that the order of additions is fixed; the
 * barriers separate it from the zeroing of the plane. G: gradient type, used to accumulate. */
HP_KERNEL(backward_input)(HP_GLOBAL G* grad_input, HP_GLOBAL const T* grad, HP_GLOBAL const T* grid, hp_i64 per_group,
                          grid_geometry g) {
  const hp_i64 area = g.in[0] * g.in[1] * g.in[2], out_area = g.out[0] * g.out[1] * g.out[2];
  const hp_i64 planes = g.batch * g.channels, begin = hp_group * per_group;
  const hp_i64 end = begin + per_group < planes ? begin + per_group : planes;
  for (hp_i64 plane = begin; plane < end; ++plane) {
    HP_GLOBAL G* const to = grad_input + plane * area;
    HP_FOR_LOCAL(i, area) to[i] = 0;
    hp_barrier();
    for (hp_i64 i = 0; hp_lid == 0 && i < out_area; ++i) {
      grid_taps t[3];
      grid_all(grid + (plane / g.channels * out_area + i) * AXES, g, t);
      const T_c given = T_get(grad[plane * out_area + i]);
      for (int kz = 0; kz < DEEP; ++kz) {
        for (int ky = 0; ky < TAPS; ++ky) {
          const T_c weight = t[0].weight[kz] * t[1].weight[ky];
          HP_GLOBAL G* const row = to + (t[0].index[kz] * g.in[1] + t[1].index[ky]) * g.in[2];
          for (int kx = 0; kx < TAPS; ++kx) {
            const T_c w = weight * t[2].weight[kx];
            if (w != 0) row[t[2].index[kx]] += (G)(w * given);
          }
        }
      }
    }
    hp_barrier();
  }
}
