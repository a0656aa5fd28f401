/* Antialiased 2-D resampling: the filter widens as the output shrinks. CUBIC: 1 cubic filter, 0 linear. T: elements, S:
 * scales and weights. */
typedef struct {
  hp_i64 planes, in[3], out[3], align;
} antialias_geometry;

/* Filter of one output: center and stretch, the sum of its weights, and the range of inputs. */
typedef struct {
  S center, squeeze, total;
  hp_i64 first, last;
} antialias_window;

HP_FN S antialias_filter(S x) {
  x = x < 0 ? -x : x;
#if CUBIC
  const S a = (S)-0.5f;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : (S)0;
#else
  return x < 1 ? (S)1 - x : (S)0;
#endif
}

HP_FN S antialias_support(S scale) { return (CUBIC ? (S)2 : (S)1) * (scale >= 1 ? scale : (S)1); }

HP_FN S antialias_raw(hp_i64 i, antialias_window w) {
  return antialias_filter(((S)i - w.center + (S)0.5f) * w.squeeze);
}

HP_FN antialias_window antialias_at(hp_i64 o, S scale, hp_i64 in) {
  antialias_window w;
  const S support = antialias_support(scale);
  w.center = scale * ((S)o + (S)0.5f);
  w.squeeze = scale >= 1 ? (S)1 / scale : (S)1;
  w.first = (hp_i64)(w.center - support + (S)0.5f);
  w.first = w.first > 0 ? w.first : 0;
  w.last = (hp_i64)(w.center + support + (S)0.5f);
  w.last = w.last < in ? w.last : in;
  S total = 0;
  for (hp_i64 i = w.first; i < w.last; ++i) total += antialias_raw(i, w);
  w.total = total != 0 ? total : (S)1;
  return w;
}

HP_KERNEL(forward)(HP_GLOBAL T* out, HP_GLOBAL const T* self, hp_i64 rows, hp_i64 per_group, S scale_z, S scale_y,
                   S scale_x, antialias_geometry g) {
  const hp_i64 end = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  for (hp_i64 row = hp_group * per_group; row < end; ++row) {
    const antialias_window wy = antialias_at(row % g.out[1], scale_y, g.in[1]);
    HP_GLOBAL const T* const p = self + row / g.out[1] * g.in[1] * g.in[2];
    HP_FOR_LOCAL(ox, g.out[2]) {
      const antialias_window wx = antialias_at(ox, scale_x, g.in[2]);
      T_c total = 0;
      for (hp_i64 x = wx.first; x < wx.last; ++x) {
        T_c column = 0;
        for (hp_i64 y = wy.first; y < wy.last; ++y) {
          column += (T_c)(antialias_raw(y, wy) / wy.total) * T_get(p[y * g.in[2] + x]);
        }
        total += (T_c)(antialias_raw(x, wx) / wx.total) * column;
      }
      out[row * g.out[2] + ox] = T_put(total);
    }
  }
}

/* Range of outputs that input i may contribute to. */
HP_FN void antialias_outputs(hp_i64 i, S scale, hp_i64 out, hp_i64* first, hp_i64* last) {
  *first = 0;
  *last = out;
  if (!(scale > 0)) return;
  const S reach = antialias_support(scale) + 1;
  const S low = ((S)i - reach) / scale - 1, high = ((S)i + reach) / scale + 2;
  if (low > 0) *first = (hp_i64)low;
  if (high < (S)out) *last = high > 0 ? (hp_i64)high : 0;
}

/* Gradient of the input, row by row. Each element gathers from the outputs that it contributed to. */
HP_KERNEL(backward)(HP_GLOBAL T* grad_input, HP_GLOBAL const T* grad, hp_i64 rows, hp_i64 per_group, S scale_z,
                    S scale_y, S scale_x, antialias_geometry g) {
  const hp_i64 end = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  for (hp_i64 row = hp_group * per_group; row < end; ++row) {
    const hp_i64 y = row % g.in[1];
    HP_GLOBAL const T* const p = grad + row / g.in[1] * g.out[1] * g.out[2];
    hp_i64 y0, y1;
    antialias_outputs(y, scale_y, g.out[1], &y0, &y1);
    HP_FOR_LOCAL(x, g.in[2]) {
      hp_i64 x0, x1;
      antialias_outputs(x, scale_x, g.out[2], &x0, &x1);
      T_c total = 0;
      for (hp_i64 ox = x0; ox < x1; ++ox) {
        const antialias_window wx = antialias_at(ox, scale_x, g.in[2]);
        if (x < wx.first || x >= wx.last) continue;
        T_c column = 0;
        for (hp_i64 oy = y0; oy < y1; ++oy) {
          const antialias_window wy = antialias_at(oy, scale_y, g.in[1]);
          if (y < wy.first || y >= wy.last) continue;
          column += (T_c)(antialias_raw(y, wy) / wy.total) * T_get(p[oy * g.out[2] + ox]);
        }
        total += (T_c)(antialias_raw(x, wx) / wx.total) * column;
      }
      grad_input[row * g.in[2] + x] = T_put(total);
    }
  }
}
