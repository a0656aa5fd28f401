/* Resampling of planes with up to three dimensions. MODE: 0 nearest, 1 nearest-exact, 2 linear, 3 cubic. T: elements,
 * S: scales and weights. */
typedef struct {
  hp_i64 planes, in[3], out[3], align;
} resample_geometry;

#if MODE == 3
#define TAPS 4
#elif MODE == 2
#define TAPS 2
#else
#define TAPS 1
#endif
/* Inputs and outputs of a row that are buffered, for groups of one work-item. */
#define WIDE 2048
#define TILE 1024

/* Inputs of output o and their weights. */
HP_FN void taps_at(hp_i64 o, S scale, hp_i64 in, hp_i64 out, hp_i64 align, hp_i64* index, S* weight) {
#if MODE < 2
  const hp_i64 at = (hp_i64)(MODE == 1 ? ((S)o + (S)0.5f) * scale : (S)o * scale);
  index[0] = at < in - 1 ? at : in - 1;
  weight[0] = 1;
#else
  S source = align ? scale * (S)o : scale * ((S)o + (S)0.5f) - (S)0.5f;
#if MODE == 2
  source = source < 0 ? (S)0 : source;
#endif
  hp_i64 first = (hp_i64)source;
  first -= (S)first > source ? 1 : 0;
  first = first < in - 1 ? first : in - 1;
  S t = source - (S)first;
  t = t < 0 ? (S)0 : t > 1 ? (S)1 : t;
#if MODE == 2
  if (in == out) {
    first = o;
    t = 0;
  }
  index[0] = first;
  index[1] = first + 1 < in ? first + 1 : first;
  weight[0] = (S)1 - t;
  weight[1] = t;
#else
  const S a = (S)-0.75f, u = t + 1, v = (S)1 - t, w = (S)2 - t;
  weight[0] = ((a * u - 5 * a) * u + 8 * a) * u - 4 * a;
  weight[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
  weight[2] = ((a + 2) * v - (a + 3)) * v * v + 1;
  weight[3] = ((a * w - 5 * a) * w + 8 * a) * w - 4 * a;
  for (int k = 0; k < 4; ++k) {
    const hp_i64 at = first - 1 + k;
    index[k] = at < 0 ? 0 : at < in ? at : in - 1;
  }
#endif
#endif
}

/* Weight of input i in output o. */
HP_FN S weight_of(hp_i64 i, hp_i64 o, S scale, hp_i64 in, hp_i64 out, hp_i64 align) {
  hp_i64 index[TAPS];
  S weight[TAPS], total = 0;
  taps_at(o, scale, in, out, align, index, weight);
  for (int k = 0; k < TAPS; ++k) total += index[k] == i ? weight[k] : (S)0;
  return total;
}

/* Range of outputs that input i may contribute to. */
HP_FN void outputs_of(hp_i64 i, S scale, hp_i64 in, hp_i64 out, hp_i64* first, hp_i64* last) {
  *first = 0;
  *last = out;
  if (!(scale > 0)) return;
  const S low = (S)(i - 3) / scale - 2, high = (S)(i + 3) / scale + 3;
  if (i > 2 && low > 0) *first = (hp_i64)low;
  if (i < in - 3 && high < (S)out) *last = (hp_i64)high;
}

HP_KERNEL(forward)(HP_GLOBAL T* out, HP_GLOBAL const T* self, hp_i64 rows, hp_i64 per_group, S scale_z, S scale_y,
                   S scale_x, resample_geometry g) {
  const hp_i64 begin = hp_group * per_group, end = begin + per_group < rows ? begin + per_group : rows;
#if HP_LSIZE == 1
  /* Taps along a row are the same for all rows. */
  hp_i32 tap_index[TAPS][TILE];
  S share[TAPS][TILE];
#if TAPS > 1
  T_c mixed[WIDE];
  const int mixes = g.in[2] <= WIDE && g.in[2] <= 4 * g.out[2];
#endif
  for (hp_i64 left = 0; left < g.out[2]; left += TILE) {
    const int n = (int)(g.out[2] - left < TILE ? g.out[2] - left : TILE);
    for (int j = 0; j < n; ++j) {
      hp_i64 index[TAPS];
      S weight[TAPS];
      taps_at(left + j, scale_x, g.in[2], g.out[2], g.align, index, weight);
      for (int k = 0; k < TAPS; ++k) {
        tap_index[k][j] = (hp_i32)index[k];
        share[k][j] = weight[k];
      }
    }
#else
  {
#endif
    for (hp_i64 row = begin; row < end; ++row) {
      const hp_i64 oy = row % g.out[1], oz = row / g.out[1] % g.out[0], plane = row / (g.out[1] * g.out[0]);
      HP_GLOBAL const T* const p = self + plane * g.in[0] * g.in[1] * g.in[2];
      HP_GLOBAL T* const to = out + row * g.out[2];
      hp_i64 z[TAPS], y[TAPS];
      S wz[TAPS], wy[TAPS];
      taps_at(oz, scale_z, g.in[0], g.out[0], g.align, z, wz);
      taps_at(oy, scale_y, g.in[1], g.out[1], g.align, y, wy);
      /* A dimension of size 1 that is not resampled has one tap. */
      const int kz_end = g.in[0] == 1 && g.out[0] == 1 ? 1 : TAPS, ky_end = g.in[1] == 1 && g.out[1] == 1 ? 1 : TAPS;
      if (kz_end == 1) wz[0] = 1;
      if (ky_end == 1) wy[0] = 1;
#if HP_LSIZE == 1
#if TAPS == 1
      HP_GLOBAL const T* const from = p + (z[0] * g.in[1] + y[0]) * g.in[2];
      HP_VECTORIZE
      for (int j = 0; j < n; ++j) to[left + j] = from[tap_index[0][j]];
#else
      if (mixes) {
        for (int kz = 0; kz < kz_end; ++kz) {
          for (int ky = 0; ky < ky_end; ++ky) {
            HP_GLOBAL const T* const from = p + (z[kz] * g.in[1] + y[ky]) * g.in[2];
            const T_c w = (T_c)(wz[kz] * wy[ky]);
            const int width = (int)g.in[2];
            if (kz + ky == 0) {
              HP_VECTORIZE
              for (int x = 0; x < width; ++x) mixed[x] = w * T_get(from[x]);
            } else {
              HP_VECTORIZE
              for (int x = 0; x < width; ++x) mixed[x] += w * T_get(from[x]);
            }
          }
        }
        HP_VECTORIZE
        for (int j = 0; j < n; ++j) {
          T_c total = 0;
          for (int k = 0; k < TAPS; ++k) total += (T_c)share[k][j] * mixed[tap_index[k][j]];
          to[left + j] = T_put(total);
        }
      } else {
        for (int j = 0; j < n; ++j) {
          T_c total = 0;
          for (int kz = 0; kz < kz_end; ++kz) {
            for (int ky = 0; ky < ky_end; ++ky) {
              HP_GLOBAL const T* const from = p + (z[kz] * g.in[1] + y[ky]) * g.in[2];
              T_c line = 0;
              for (int k = 0; k < TAPS; ++k) line += (T_c)share[k][j] * T_get(from[tap_index[k][j]]);
              total += (T_c)(wz[kz] * wy[ky]) * line;
            }
          }
          to[left + j] = T_put(total);
        }
      }
#endif
#else
      HP_FOR_LOCAL(ox, g.out[2]) {
        hp_i64 x[TAPS];
        S wx[TAPS];
        taps_at(ox, scale_x, g.in[2], g.out[2], g.align, x, wx);
#if TAPS == 1
        to[ox] = p[(z[0] * g.in[1] + y[0]) * g.in[2] + x[0]];
#else
        T_c total = 0;
        for (int kz = 0; kz < kz_end; ++kz) {
          for (int ky = 0; ky < ky_end; ++ky) {
            HP_GLOBAL const T* const from = p + (z[kz] * g.in[1] + y[ky]) * g.in[2];
            T_c line = 0;
            for (int k = 0; k < TAPS; ++k) line += (T_c)wx[k] * T_get(from[x[k]]);
            total += (T_c)(wz[kz] * wy[ky]) * line;
          }
        }
        to[ox] = T_put(total);
#endif
      }
#endif
    }
  }
}

/* A work-group handles whole planes of the input's gradient. G: gradient type, used to accumulate. */
HP_KERNEL(backward)(HP_GLOBAL G* grad_input, HP_GLOBAL const T* grad, hp_i64 per_group, S scale_z, S scale_y, S scale_x,
                    resample_geometry g) {
  const hp_i64 begin = hp_group * per_group, end = begin + per_group < g.planes ? begin + per_group : g.planes;
  const hp_i64 area = g.in[0] * g.in[1] * g.in[2], out_area = g.out[0] * g.out[1] * g.out[2];
  const int flat_z = g.in[0] == 1 && g.out[0] == 1, flat_y = g.in[1] == 1 && g.out[1] == 1;
#if HP_LSIZE == 1
  if (g.in[2] <= WIDE && g.out[2] <= TILE) {
    hp_i32 tap_index[TAPS][TILE];
    S share[TAPS][TILE];
    G_c line[WIDE];
    const int width = (int)g.in[2], n = (int)g.out[2];
    for (int j = 0; j < n; ++j) {
      hp_i64 index[TAPS];
      S weight[TAPS];
      taps_at(j, scale_x, g.in[2], g.out[2], g.align, index, weight);
      for (int k = 0; k < TAPS; ++k) {
        tap_index[k][j] = (hp_i32)index[k];
        share[k][j] = weight[k];
      }
    }
    for (hp_i64 plane = begin; plane < end; ++plane) {
      HP_GLOBAL G* const to = grad_input + plane * area;
      for (hp_i64 i = 0; i < area; ++i) to[i] = 0;
      for (hp_i64 row = 0; row < g.out[0] * g.out[1]; ++row) {
        HP_GLOBAL const T* const from = grad + plane * out_area + row * g.out[2];
        hp_i64 z[TAPS], y[TAPS];
        S wz[TAPS], wy[TAPS];
        taps_at(row / g.out[1], scale_z, g.in[0], g.out[0], g.align, z, wz);
        taps_at(row % g.out[1], scale_y, g.in[1], g.out[1], g.align, y, wy);
        if (flat_z) wz[0] = 1;
        if (flat_y) wy[0] = 1;
        for (int x = 0; x < width; ++x) line[x] = 0;
        for (int j = 0; j < n; ++j) {
          const G_c v = (G_c)T_get(from[j]);
          for (int k = 0; k < TAPS; ++k) line[tap_index[k][j]] += (G_c)share[k][j] * v;
        }
        for (int kz = 0; kz < (flat_z ? 1 : TAPS); ++kz) {
          for (int ky = 0; ky < (flat_y ? 1 : TAPS); ++ky) {
            HP_GLOBAL G* const target = to + (z[kz] * g.in[1] + y[ky]) * g.in[2];
            const G_c w = (G_c)(wz[kz] * wy[ky]);
            HP_VECTORIZE
            for (int x = 0; x < width; ++x) target[x] += w * line[x];
          }
        }
      }
    }
    return;
  }
#endif
  for (hp_i64 plane = begin; plane < end; ++plane) {
    HP_FOR_LOCAL(i, area) {
      const hp_i64 x = i % g.in[2], y = i / g.in[2] % g.in[1], z = i / g.in[2] / g.in[1];
      hp_i64 x0, x1, y0, y1, z0, z1;
      outputs_of(x, scale_x, g.in[2], g.out[2], &x0, &x1);
      outputs_of(y, scale_y, g.in[1], g.out[1], &y0, &y1);
      outputs_of(z, scale_z, g.in[0], g.out[0], &z0, &z1);
      G_c total = 0;
      for (hp_i64 oz = z0; oz < z1; ++oz) {
        const S wz = flat_z ? (S)1 : weight_of(z, oz, scale_z, g.in[0], g.out[0], g.align);
        if (wz == 0) continue;
        for (hp_i64 oy = y0; oy < y1; ++oy) {
          const S wy = flat_y ? (S)1 : weight_of(y, oy, scale_y, g.in[1], g.out[1], g.align);
          if (wy == 0) continue;
          HP_GLOBAL const T* const from = grad + plane * out_area + (oz * g.out[1] + oy) * g.out[2];
          for (hp_i64 ox = x0; ox < x1; ++ox) {
            const S wx = weight_of(x, ox, scale_x, g.in[2], g.out[2], g.align);
            /* Skip zero weights: the gradient may be infinite. */
            if (wx != 0) total += (G_c)(wz * wy * wx) * (G_c)T_get(from[ox]);
          }
        }
      }
      grad_input[plane * area + i] = (G)total;
    }
  }
}
