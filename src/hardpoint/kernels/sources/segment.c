/* Segment reductions: data is outer x n x inner, contiguous. Segment s of an outer index covers rows offsets[s] to
 * offsets[s + 1]; each outer index has `segments + 1` offsets. REDUCTION: 0 maximum, 1 mean, 2 minimum, 3 sum, 4
 * product. A work-group handles `each` segments; a work-item handles COLUMNS columns at a time. */
#if HP_LSIZE == 1
enum { COLUMNS = 64 };
#else
enum { COLUMNS = 1 };
#endif

/* Clamps offsets: rows outside the data are never accessed. */
HP_FN hp_i64 segment_row(HP_GLOBAL const hp_i64* offsets, hp_i64 at, hp_i64 n) {
  const hp_i64 row = offsets[at];
  return row < 0 ? 0 : row < n ? row : n;
}

HP_FN T_a segment_add(T_a acc, T_a x) {
#if REDUCTION == 0
  return acc > x || acc != acc ? acc : x;
#elif REDUCTION == 2
  return acc < x || acc != acc ? acc : x;
#elif REDUCTION == 4
  return acc * x;
#else
  return acc + x;
#endif
}

HP_KERNEL(forward)(HP_GLOBAL T* out, HP_GLOBAL const T* data, HP_GLOBAL const hp_i64* offsets, hp_i64 all,
                   hp_i64 segments, hp_i64 n, hp_i64 inner, hp_i64 each, hp_i64 has_initial, T_a initial) {
  const hp_i64 begin = hp_group * each, end = begin + each < all ? begin + each : all;
  for (hp_i64 task = begin; task < end; ++task) {
    const hp_i64 o = task / segments, at = o * (segments + 1) + task % segments;
    const hp_i64 low = segment_row(offsets, at, n), high = segment_row(offsets, at + 1, n);
    for (hp_i64 base = hp_lid * COLUMNS; base < inner; base += HP_LSIZE * COLUMNS) {
      const hp_i64 width = base + COLUMNS < inner ? COLUMNS : inner - base;
      T_a acc[COLUMNS];
      for (hp_i64 c = 0; c < width; ++c) acc[c] = initial;
      for (hp_i64 row = low; row < high; ++row) {
        HP_GLOBAL const T* const x = data + (o * n + row) * inner + base;
        for (hp_i64 c = 0; c < width; ++c) acc[c] = segment_add(acc[c], (T_a)T_get(x[c]));
      }
      for (hp_i64 c = 0; c < width; ++c) {
#if REDUCTION == 1
        const T_a count = (T_a)(high - low);
        acc[c] = high > low ? acc[c] / count : has_initial ? acc[c] : (T_a)HP_NAN_f32;
#endif
        out[task * inner + base + c] = T_put(acc[c]);
      }
    }
  }
}

/* Rows outside every segment keep their value. */
HP_KERNEL(backward)(HP_GLOBAL T* out, HP_GLOBAL const T* grad, HP_GLOBAL const T* output, HP_GLOBAL const T* data,
                    HP_GLOBAL const hp_i64* offsets, hp_i64 all, hp_i64 segments, hp_i64 n, hp_i64 inner, hp_i64 each,
                    T_a initial) {
  const hp_i64 begin = hp_group * each, end = begin + each < all ? begin + each : all;
  for (hp_i64 task = begin; task < end; ++task) {
    const hp_i64 o = task / segments, at = o * (segments + 1) + task % segments;
    const hp_i64 low = segment_row(offsets, at, n), high = segment_row(offsets, at + 1, n);
    HP_FOR_LOCAL(c, inner) {
      const T_a g = (T_a)T_get(grad[task * inner + c]);
      const hp_i64 first = (o * n + low) * inner + c, last = (o * n + high) * inner + c;
#if REDUCTION == 0 || REDUCTION == 2
      const T_a y = (T_a)T_get(output[task * inner + c]);
      hp_i64 count = 0;
      for (hp_i64 i = first; i < last; i += inner) {
        const T_a x = (T_a)T_get(data[i]);
        count += x == y || x != x;
      }
      /* As in torch on CPU and CUDA: equal extremes share a positive gradient. */
      const T_a share = count > 1 && g > 0 ? g / (T_a)count : g;
      for (hp_i64 i = first; i < last; i += inner) {
        const T_a x = (T_a)T_get(data[i]);
        out[i] = T_put(x == y || x != x ? share : (T_a)0);
      }
#elif REDUCTION == 4
      const T_a y = (T_a)T_get(output[task * inner + c]) * g;
      for (hp_i64 i = first; i < last; i += inner) {
        const T_a x = (T_a)T_get(data[i]);
        T_a others = y / x;
        if (x == 0 || x != x) {
          others = initial * g;
          for (hp_i64 k = first; k < last; k += inner) others *= k == i ? (T_a)1 : (T_a)T_get(data[k]);
        }
        out[i] = T_put(others);
      }
#else
      const T_a share = REDUCTION == 1 ? g / (T_a)(high - low) : g;
      for (hp_i64 i = first; i < last; i += inner) out[i] = T_put(share);
#endif
    }
  }
}
