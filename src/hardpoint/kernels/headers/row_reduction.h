/* Sums and maxima over contiguous runs of floating-point elements T. In a group of one work-item (a CPU) they use
 * explicit vectors, because compilers do not reorder floating-point sums. In larger groups each work-item reduces a
 * part of the run and HP_GROUP_SUM or HP_GROUP_MAX combines the parts. */
#if defined(T_IS_F16) || defined(T_IS_BF16)
#define HP_T_IS_HALF 1
#else
#define HP_T_IS_HALF 0
#endif

/* Elements widened to T_a at a time, for 16-bit T. */
#define HP_CHUNK 1024

#if HP_LSIZE == 1
#define HP_LANES ((int)(64 / sizeof(T_a)))
typedef T_a hp_vector __attribute__((vector_size(64), aligned(sizeof(T_a)), may_alias));

HP_FN hp_vector hp_splat(T_a x) { return x - (hp_vector){0}; }

HP_FN T_a hp_fold_sum(hp_vector v) {
  T_a part[64 / sizeof(T_a)];
  for (int i = 0; i < HP_LANES; ++i) part[i] = v[i];
  for (int width = HP_LANES / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) part[i] += part[i + width];
  }
  return part[0];
}

/* A run of T as T_a: the run itself, or a widened copy in the buffer. */
#if HP_T_IS_HALF
HP_FN const T_a* hp_widen(const T* from, T_a* buffer, hp_i64 n) {
  HP_VECTORIZE
  for (hp_i64 i = 0; i < n; ++i) buffer[i] = T_get(from[i]);
  return buffer;
}
#else
#define hp_widen(from, buffer, n) (from)
#endif

#define HP_AT(p, i) (*(const hp_vector*)((p) + (i)))

/* Function body that sums TERM over 0 .. n-1. VECTOR is the same expression for the lanes from i on. Four accumulators
 * hide the latency of the additions. */
#define HP_SUM_BODY(n, VECTOR, TERM)                      \
  hp_vector a = {0}, b = {0}, c = {0}, d = {0};           \
  hp_i64 i = 0;                                           \
  for (; i + 4 * HP_LANES <= (n); i += HP_LANES) {        \
    a += VECTOR, i += HP_LANES;                           \
    b += VECTOR, i += HP_LANES;                           \
    c += VECTOR, i += HP_LANES;                           \
    d += VECTOR;                                          \
  }                                                       \
  for (; i + HP_LANES <= (n); i += HP_LANES) a += VECTOR; \
  T_a total = hp_fold_sum((a + b) + (c + d));             \
  for (; i < (n); ++i) total += TERM;                     \
  return total

HP_FN T_a hp_sum(const T_a* p, hp_i64 n) { HP_SUM_BODY(n, HP_AT(p, i), p[i]); }

HP_FN T_a hp_sum_products(const T_a* p, const T_a* q, hp_i64 n) {
  HP_SUM_BODY(n, HP_AT(p, i) * HP_AT(q, i), p[i] * q[i]);
}

/* Sum of (p - center)^2. */
HP_FN T_a hp_sum_squares(const T_a* p, T_a center, hp_i64 n) {
  const hp_vector m = hp_splat(center);
  HP_SUM_BODY(n, (HP_AT(p, i) - m) * (HP_AT(p, i) - m), (p[i] - center) * (p[i] - center));
}

/* Sum of p * (q - center). */
HP_FN T_a hp_sum_centered(const T_a* p, const T_a* q, T_a center, hp_i64 n) {
  const hp_vector m = hp_splat(center);
  HP_SUM_BODY(n, HP_AT(p, i) * (HP_AT(q, i) - m), p[i] * (q[i] - center));
}

/* Lane-wise a > b ? a : b. */
HP_FN hp_vector hp_larger(hp_vector a, hp_vector b) {
  const __typeof__(a > b) mask = a > b;
  return (hp_vector)(((__typeof__(mask))a & mask) | ((__typeof__(mask))b & ~mask));
}

/* Maximum of the run and `largest`; NaN is ignored. */
HP_FN T_a hp_max(const T_a* p, hp_i64 n, T_a largest) {
  hp_vector a = hp_splat(largest), b = a;
  hp_i64 i = 0;
  for (; i + 2 * HP_LANES <= n; i += 2 * HP_LANES) {
    const hp_vector x = HP_AT(p, i), y = HP_AT(p, i + HP_LANES);
    a = hp_larger(x, a);
    b = hp_larger(y, b);
  }
  a = hp_larger(b, a);
  for (; i + HP_LANES <= n; i += HP_LANES) a = hp_larger(HP_AT(p, i), a);
  T_a part[64 / sizeof(T_a)];
  for (int k = 0; k < HP_LANES; ++k) part[k] = a[k];
  for (int width = HP_LANES / 2; width > 0; width /= 2) {
    for (int k = 0; k < width; ++k) part[k] = part[k + width] > part[k] ? part[k + width] : part[k];
  }
  largest = part[0];
  for (; i < n; ++i) largest = p[i] > largest ? p[i] : largest;
  return largest;
}
#else

/* Combines the work-items' partial results; every work-item gets the total. `value` is the partial result on entry and
 * the total on return. `scratch` is an HP_LOCAL array of HP_LSIZE elements. The first barrier publishes the partial
 * results; the last one lets the caller reuse the array. */
#if defined(HP_DIALECT_CUDA) && HP_LSIZE % 32 == 0
/* Within a warp, partial results are exchanged by shuffles; only one value per warp goes through local memory. */
#define HP_GROUP_COMBINE(scratch, value, COMBINED)              \
  do {                                                          \
    for (int step = 16; step > 0; step /= 2) {                  \
      const T_a x = (value), y = __shfl_xor_sync(~0u, x, step); \
      (value) = (COMBINED);                                     \
    }                                                           \
    if (hp_lid % 32 == 0) (scratch)[hp_lid / 32] = (value);     \
    hp_barrier();                                               \
    (value) = (scratch)[0];                                     \
    for (int warp = 1; warp < HP_LSIZE / 32; ++warp) {          \
      const T_a x = (value), y = (scratch)[warp];               \
      (value) = (COMBINED);                                     \
    }                                                           \
    hp_barrier();                                               \
  } while (0)
#else
#define HP_GROUP_COMBINE(scratch, value, COMBINED)     \
  do {                                                 \
    (scratch)[hp_lid] = (value);                       \
    hp_barrier();                                      \
    for (int step = 512; step > 0; step /= 2) {        \
      if (step >= HP_LSIZE) continue;                  \
      if (hp_lid < step && hp_lid + step < HP_LSIZE) { \
        const T_a x = (scratch)[hp_lid];               \
        const T_a y = (scratch)[hp_lid + step];        \
        (scratch)[hp_lid] = (COMBINED);                \
      }                                                \
      hp_barrier();                                    \
    }                                                  \
    (value) = (scratch)[0];                            \
    hp_barrier();                                      \
  } while (0)
#endif
#define HP_GROUP_SUM(scratch, value) HP_GROUP_COMBINE(scratch, value, x + y)
#define HP_GROUP_MAX(scratch, value) HP_GROUP_COMBINE(scratch, value, y > x ? y : x)
#endif
