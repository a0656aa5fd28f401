/* Resampling of uint8 planes in two dimensions, in integer arithmetic as in torch: weights have as many bits as fit in
 * 16, and each dimension rounds separately. CUBIC: 1 cubic filter, 0 linear. SMOOTH: 1 if the filter widens as the
 * output shrinks (antialiasing). S: type that weights are computed in. */
typedef struct {
  hp_i64 in, out, taps, align;
} bytes_line;

/* A table starts with the precision of the weights in bits. Then per output: first input, number of inputs, weights. */
#define TABLE_ROW(g) ((g).taps + 2)

#define WIDTH (CUBIC ? 4 : 2)
#define TILE 256

/* Inputs of one output. center: of the filter; total: divisor of the weights; below: taps cut off at the left edge,
 * which count for the first input. */
typedef struct {
  S center, squeeze, total;
  hp_i64 first, count, below;
} bytes_window;

HP_FN S bytes_filter(S x) {
  x = x < 0 ? -x : x;
#if CUBIC
  const S a = SMOOTH ? (S)-0.5f : (S)-0.75f;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : (S)0;
#else
  return x < 1 ? (S)1 - x : (S)0;
#endif
}

HP_FN bytes_window bytes_at(hp_i64 o, S scale, bytes_line g) {
  bytes_window w;
#if SMOOTH
  const S half = (S)0.5f, support = (S)(WIDTH / 2) * (scale >= 1 ? scale : (S)1);
  w.center = scale * ((S)o + half);
  w.squeeze = scale >= 1 ? (S)1 / scale : (S)1;
  w.first = (hp_i64)(w.center - support + half);
  w.first = w.first > 0 ? w.first : 0;
  hp_i64 last = (hp_i64)(w.center + support + half);
  last = last < g.in ? last : g.in;
  w.count = last - w.first;
  w.below = 0;
  S total = 0;
  for (hp_i64 k = 0; k < w.count; ++k) total += bytes_filter(((S)(w.first + k) - w.center + half) * w.squeeze);
  w.total = total != 0 ? total : (S)1;
#else
  S source = g.align ? scale * (S)o : scale * ((S)o + (S)0.5f) - (S)0.5f;
  if (!CUBIC && source < 0) source = 0;
  hp_i64 at = (hp_i64)source;
  at -= (S)at > source ? 1 : 0;
  at = at < g.in - 1 ? at : g.in - 1;
  S t = source - (S)at;
  w.center = t < 0 ? (S)0 : t > 1 ? (S)1 : t;
  w.squeeze = w.total = 1;
  const hp_i64 begin = at - WIDTH / 2 + 1, end = at + WIDTH / 2 + 1;
  w.first = begin > 0 ? begin : 0;
  w.count = (end < g.in ? end : g.in) - w.first;
  w.below = w.first - begin;
#endif
  return w;
}

/* Weight of the window's k-th input. */
HP_FN S bytes_weight(hp_i64 k, bytes_window w) {
#if SMOOTH
  return bytes_filter(((S)(w.first + k) - w.center + (S)0.5f) * w.squeeze) / w.total;
#else
  /* Taps outside the input count for the border. */
  S sum = 0;
  for (hp_i64 j = 0; j < WIDTH; ++j) {
    hp_i64 position = j - w.below;
    position = position < 0 ? 0 : position < w.count ? position : w.count - 1;
    if (position == k) sum += bytes_filter((S)(j + 1 - WIDTH / 2) - w.center);
  }
  return sum;
#endif
}

/* One work-group computes the whole table: the precision depends on the largest weight of all. The barrier publishes
 * each work-item's largest weight. */
HP_KERNEL(table)(HP_GLOBAL hp_i32* table, S scale, bytes_line g) {
  HP_LOCAL S largest[HP_LSIZE];
  S most = 0;
  HP_FOR_LOCAL(o, g.out) {
    const bytes_window w = bytes_at(o, scale, g);
    for (hp_i64 k = 0; k < w.count; ++k) {
      const S weight = bytes_weight(k, w);
      most = weight > most ? weight : most;
    }
  }
  largest[hp_lid] = most;
  hp_barrier();
  for (int l = 0; l < HP_LSIZE; ++l) most = largest[l] > most ? largest[l] : most;
  int precision = 0;
  while (precision < 22 && (S)0.5f + most * (S)(1 << (precision + 1)) < (S)32768) ++precision;
  if (hp_lid == 0) table[0] = precision;
  const S one = (S)(1 << precision);
  HP_FOR_LOCAL(o, g.out) {
    const bytes_window w = bytes_at(o, scale, g);
    HP_GLOBAL hp_i32* const row = table + 1 + o * TABLE_ROW(g);
    row[0] = (hp_i32)w.first;
    row[1] = (hp_i32)w.count;
    for (hp_i64 k = 0; k < w.count; ++k) {
      const S weight = bytes_weight(k, w) * one;
      row[2 + k] = (hp_i32)(weight < 0 ? weight - (S)0.5f : weight + (S)0.5f);
    }
  }
}

HP_FN hp_u8 bytes_rounded(hp_i32 sum, hp_i32 precision) {
  sum = (sum + (1 << (precision - 1))) >> precision;
  return (hp_u8)(sum < 0 ? 0 : sum < 255 ? sum : 255);
}

/* Along rows. */
HP_KERNEL(along)(HP_GLOBAL hp_u8* out, HP_GLOBAL const hp_u8* self, HP_GLOBAL const hp_i32* table, hp_i64 rows,
                 hp_i64 per_group, bytes_line g) {
  const hp_i64 end = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  for (hp_i64 row = hp_group * per_group; row < end; ++row) {
    HP_FOR_LOCAL(o, g.out) {
      HP_GLOBAL const hp_i32* const taps = table + 1 + o * TABLE_ROW(g);
      HP_GLOBAL const hp_u8* const from = self + row * g.in + taps[0];
      hp_i32 sum = 0;
      for (hp_i32 k = 0; k < taps[1]; ++k) sum += taps[2 + k] * (hp_i32)from[k];
      out[row * g.out + o] = bytes_rounded(sum, table[0]);
    }
  }
}

/* Across rows of `width` elements. */
HP_KERNEL(across)(HP_GLOBAL hp_u8* out, HP_GLOBAL const hp_u8* self, HP_GLOBAL const hp_i32* table, hp_i64 rows,
                  hp_i64 per_group, hp_i64 width, bytes_line g) {
  const hp_i64 end = (hp_group + 1) * per_group < rows ? (hp_group + 1) * per_group : rows;
  for (hp_i64 row = hp_group * per_group; row < end; ++row) {
    HP_GLOBAL const hp_i32* const taps = table + 1 + row % g.out * TABLE_ROW(g);
    HP_GLOBAL const hp_u8* const from = self + (row / g.out * g.in + taps[0]) * width;
    HP_GLOBAL hp_u8* const to = out + row * width;
#if HP_LSIZE == 1
    for (hp_i64 left = 0; left < width; left += TILE) {
      const int n = (int)(width - left < TILE ? width - left : TILE);
      hp_i32 sum[TILE];
      for (int x = 0; x < n; ++x) sum[x] = 0;
      for (hp_i32 k = 0; k < taps[1]; ++k) {
        const hp_i32 weight = taps[2 + k];
        for (int x = 0; x < n; ++x) sum[x] += weight * (hp_i32)from[k * width + left + x];
      }
      for (int x = 0; x < n; ++x) to[left + x] = bytes_rounded(sum[x], table[0]);
    }
#else
    HP_FOR_LOCAL(x, width) {
      hp_i32 sum = 0;
      for (hp_i32 k = 0; k < taps[1]; ++k) sum += taps[2 + k] * (hp_i32)from[k * width + x];
      to[x] = bytes_rounded(sum, table[0]);
    }
#endif
  }
}
