/* Distances between rows of `m` elements. NORM: 0 counts differing elements, 1 sum of absolute differences, 2
 * Euclidean, 3 maximum, 4 p-norm with exponent `p`. PAIRS: 0 every row of `a` with every row of `b`, per batch (cdist);
 * 1 every row of `a` with all later rows (pdist). */
#if NORM == 3
/* NaN is ignored, as in torch. */
#define DISTANCE_ADD(acc, d) ((d) > (acc) ? (d) : (acc))
#else
#define DISTANCE_ADD(acc, d) ((acc) + (d))
#endif
#if NORM == 0
#define DISTANCE_MAP(d) ((d) == 0 ? (T)0 : (d) == (d) ? (T)1 : (d))
#elif NORM == 2
#define DISTANCE_MAP(d) ((d) * (d))
#elif NORM == 4
#define DISTANCE_MAP(d) T_M(pow)((d) < 0 ? -(d) : (d), p)
#else
#define DISTANCE_MAP(d) ((d) < 0 ? -(d) : (d))
#endif
enum { LANES = 16 };

HP_FN T distance_of(HP_GLOBAL const T* a, HP_GLOBAL const T* b, hp_i64 m, T p) {
  T acc[LANES], total = 0;
  hp_i64 k = 0;
  (void)p;
  for (int l = 0; l < LANES; ++l) acc[l] = 0;
  for (; k + LANES <= m; k += LANES) {
    for (int l = 0; l < LANES; ++l) {
      const T d = a[k + l] - b[k + l], v = DISTANCE_MAP(d);
      acc[l] = DISTANCE_ADD(acc[l], v);
    }
  }
  for (int l = 0; l < LANES; ++l) total = DISTANCE_ADD(total, acc[l]);
  for (; k < m; ++k) {
    const T d = a[k] - b[k], v = DISTANCE_MAP(d);
    total = DISTANCE_ADD(total, v);
  }
#if NORM == 2
  return T_M(sqrt)(total);
#elif NORM == 4
  return T_M(pow)(total, (T)1 / p);
#else
  return total;
#endif
}

#if PAIRS
/* Index of the first pair of row i. */
HP_FN hp_i64 distance_start(hp_i64 i, hp_i64 n) { return i * (2 * n - i - 1) / 2; }
#endif

/* `rows` rows of a and `columns` rows of b per batch; one output per pair. */
HP_KERNEL(forward)(HP_GLOBAL T* out, HP_GLOBAL const T* a, HP_GLOBAL const T* b, hp_i64 all, hp_i64 rows,
                   hp_i64 columns, hp_i64 m, T p, hp_i64 each) {
  const hp_i64 begin = hp_group * each, end = begin + each < all ? begin + each : all;
  for (hp_i64 at = begin + hp_lid; at < end; at += HP_LSIZE) {
#if PAIRS
    hp_i64 low = 0, high = rows - 1;
    while (high - low > 1) {
      const hp_i64 middle = (low + high) / 2;
      if (distance_start(middle, rows) <= at)
        low = middle;
      else
        high = middle;
    }
    const hp_i64 i = low, j = at - distance_start(low, rows) + low + 1;
    (void)columns;
#else
    const hp_i64 i = at / columns, j = i / rows * columns + at % columns;
#endif
    out[at] = distance_of(a + i * m, b + j * m, m, p);
  }
}

/* Contribution of one pair to the gradient of an element. d: difference, g: gradient of the pair, c: its distance. */
HP_FN T distance_slope(T d, T g, T c, T p) {
  (void)p;
#if NORM == 1 || NORM == 3
  const T sign = (T)((d > 0) - (d < 0));
#endif
#if NORM == 0
  return 0;
#elif NORM == 1
  return g * sign;
#elif NORM == 2
  return c == 0 ? (T)0 : g * d / c;
#elif NORM == 3
  return g * sign * (T)((d < 0 ? -d : d) == c);
#else
  const T v = T_M(pow)((d < 0 ? -d : d), p - 1) * g / T_M(pow)(c, p - 1);
  return c == 0 || d == 0 ? (T)0 : d < 0 ? -v : v;
#endif
}

/* Gradient with respect to the rows of a. A work-group handles `each` rows. */
HP_KERNEL(backward)(HP_GLOBAL T* out, HP_GLOBAL const T* grad, HP_GLOBAL const T* a, HP_GLOBAL const T* b,
                    HP_GLOBAL const T* distances, hp_i64 all, hp_i64 rows, hp_i64 columns, hp_i64 m, T p, hp_i64 each) {
  const hp_i64 begin = hp_group * each, end = begin + each < all ? begin + each : all;
  for (hp_i64 i = begin; i < end; ++i) {
    HP_FOR_LOCAL(k, m) out[i * m + k] = 0;
    for (hp_i64 j = 0; j < columns; ++j) {
#if PAIRS
      if (j == i) continue;
      const hp_i64 pair = i < j ? distance_start(i, rows) + j - i - 1 : distance_start(j, rows) + i - j - 1;
      const hp_i64 other = j;
#else
      const hp_i64 pair = i * columns + j, other = i / rows * columns + j;
#endif
      const T g = grad[pair], c = distances[pair];
      HP_VECTORIZE
      HP_FOR_LOCAL(k, m) out[i * m + k] += distance_slope(a[i * m + k] - b[other * m + k], g, c, p);
    }
  }
}
