/* Variance and mean. T: elements, A: accumulator type, R: outputs. SQRT: 1 for the standard deviation. MEAN: 1 to write
 * the mean too. The rule's parameter is the divisor of the sum of squares. Each block computes its mean first, then
 * squared deviations from it; blocks are merged by Chan's formula. This is accurate for any mean. */
#define COMBINE (acc + x)
#define INITIAL ((A)0)
#define MAP (x)
#define MAP_IS_IDENTITY 1
#include "reduction.h"

#define STORE_MOMENTS(offset, mean, squares)                         \
  do {                                                               \
    const A variance_ = (squares) / reduce_number(g);                \
    spread[offset] = R_put(SQRT ? A_M(sqrt)(variance_) : variance_); \
    if (MEAN) center[offset] = R_put(mean);                          \
  } while (0)

/* Merges `m` elements with their mean and sum of squared deviations into the running totals. */
#define MERGE_MOMENTS(n, mean, squares, m, other_mean, other_squares)                   \
  do {                                                                                  \
    const A delta_ = (other_mean) - (mean), weight_ = (A)(m) / (A)((n) + (m));          \
    /* The first block has no delta: its square may overflow. */                        \
    squares += (other_squares) + ((n) == 0 ? 0 : delta_ * delta_ * ((A)(n) * weight_)); \
    mean += delta_ * weight_;                                                           \
  } while (0)

/* An overflowing correction belongs to a sum of squares that overflowed as well and must stay infinite. */
#define MOMENTS_FINITE(x) ((x) < (A)HP_INFINITY ? (x) : (A)0)

#if REDUCE_HOST
/* Sum of squared deviations from the mean. `mean` is rounded; the sum of the deviations corrects for its error. */
HP_FN A moments_squares(const A* x, hp_i64 n, A mean) {
  enum { L = REDUCE_LANES };
  const reduce_vector center = (reduce_vector){0} + mean;
  reduce_vector a = {0}, b = {0}, c = {0}, d = {0};
  hp_i64 j = 0;
  for (; j + 2 * L <= n; j += 2 * L) {
    const reduce_vector p = *(const reduce_unaligned*)(x + j) - center;
    const reduce_vector q = *(const reduce_unaligned*)(x + j + L) - center;
    a += p * p;
    b += q * q;
    c += p;
    d += q;
  }
  A squares = reduce_lanes(a + b), rest = reduce_lanes(c + d);
  for (; j < n; ++j) {
    squares += (x[j] - mean) * (x[j] - mean);
    rest += x[j] - mean;
  }
  return squares - MOMENTS_FINITE(rest * rest / (A)n);
}
#endif

/* Unless `final`, writes each part's mean and sum of squares to `means` and `sums`. */
HP_KERNEL(rows)(HP_GLOBAL R* spread, HP_GLOBAL R* center, HP_GLOBAL A* means, HP_GLOBAL A* sums,
                HP_GLOBAL const T* self, hp_i64 final, reduce_geometry g, hp_i64 per_group) {
#if !REDUCE_HOST
  HP_LOCAL A shared[HP_LSIZE];
#endif
  REDUCE_FOR_TASKS(task, g.outputs * g.parts) {
    REDUCE_ROW(task, output, begin, end, base);
    A mean = 0, squares = 0;
#if REDUCE_HOST
    hp_i64 passed = 0;
#define ADD(x, n)                                                                  \
  do {                                                                             \
    const A own = reduce_block(x, n) / (A)(n), rest_ = moments_squares(x, n, own); \
    MERGE_MOMENTS(passed, mean, squares, n, own, rest_);                           \
    passed += (n);                                                                 \
  } while (0)
    REDUCE_RUNS(base, begin, end, 0, 4096, ADD);
#undef ADD
    if (g.count == 0) mean = mean / (A)0;
#else
    A sum = 0;
    for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE) sum += reduce_load(base[reduce_element(&g, i)], 0);
    for (int pass = 0; pass < 2; ++pass) {
      shared[hp_lid] = sum;
      hp_barrier();
      for (int width = HP_LSIZE / 2; width > 0; width /= 2) {
        if (hp_lid < width) shared[hp_lid] += shared[hp_lid + width];
        hp_barrier();
      }
      squares = shared[0];
      hp_barrier();
      if (pass == 0) {
        mean = squares / (A)(end - begin);
        sum = 0;
        for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE) {
          const A delta = reduce_load(base[reduce_element(&g, i)], 0) - mean;
          sum += delta * delta;
        }
      }
    }
#endif
    if (hp_lid == 0) {
      if (final) {
        STORE_MOMENTS(reduce_output(&g, output), mean, squares);
      } else {
        means[task] = mean;
        sums[task] = squares;
      }
    }
  }
}

HP_KERNEL(columns)(HP_GLOBAL R* spread, HP_GLOBAL R* center, HP_GLOBAL A* means, HP_GLOBAL A* sums,
                   HP_GLOBAL const T* self, hp_i64 final, reduce_geometry g, hp_i64 per_group) {
  const hp_i64 width = g.kept_size[0], strips = (width + REDUCE_COLUMNS - 1) / REDUCE_COLUMNS;
  const hp_i64 tasks = g.outputs / width * strips * g.parts, step = INNER ? 1 : g.kept_stride[0];
  REDUCE_FOR_TASKS(task, tasks) {
    REDUCE_STRIP(task, tasks, width, strips, part, first, output, n);
    const hp_i64 begin = part * g.part, end = begin + g.part < g.count ? begin + g.part : g.count;
    HP_GLOBAL const T* const base = self + reduce_input(&g, output);
    const hp_i64 partial = part * g.outputs + output;
#if REDUCE_HOST
    A mean[REDUCE_COLUMNS], squares[REDUCE_COLUMNS], own[REDUCE_COLUMNS], rest[REDUCE_COLUMNS], off[REDUCE_COLUMNS];
    for (hp_i64 j = 0; j < n; ++j) mean[j] = squares[j] = 0;
    /* 16 rows at a time, so that they are still in cache for the second pass. */
    for (hp_i64 i = begin; i < end; i += 16) {
      const hp_i64 rows = end - i < 16 ? end - i : 16;
      hp_i64 down[16];
      for (hp_i64 r = 0; r < rows; ++r) down[r] = reduce_element(&g, i + r);
      for (hp_i64 j = 0; j < n; ++j) own[j] = rest[j] = off[j] = 0;
      for (hp_i64 r = 0; r < rows; ++r) {
        const T* const row = base + down[r];
        HP_VECTORIZE
        for (hp_i64 j = 0; j < n; ++j) own[j] += reduce_load(row[j * step], 0);
      }
      const A scale = (A)1 / (A)rows;
      for (hp_i64 j = 0; j < n; ++j) own[j] *= scale;
      for (hp_i64 r = 0; r < rows; ++r) {
        const T* const row = base + down[r];
        HP_VECTORIZE
        for (hp_i64 j = 0; j < n; ++j) {
          const A delta = reduce_load(row[j * step], 0) - own[j];
          rest[j] += delta * delta;
          off[j] += delta;
        }
      }
      const A before = (A)(i - begin), share = (A)rows / (A)(i - begin + rows), factor = before * share;
      for (hp_i64 j = 0; j < n; ++j) {
        const A delta = own[j] - mean[j];
        squares[j] += rest[j] - MOMENTS_FINITE(off[j] * off[j] * scale) + (i == begin ? 0 : delta * delta * factor);
        mean[j] += delta * share;
      }
    }
    if (g.count == 0)
      for (hp_i64 j = 0; j < n; ++j) mean[j] = mean[j] / (A)0;
    for (hp_i64 j = 0; j < n; ++j) {
      if (final) {
        STORE_MOMENTS(reduce_output(&g, output) + j * g.out_stride[0], mean[j], squares[j]);
      } else {
        means[partial + j] = mean[j];
        sums[partial + j] = squares[j];
      }
    }
#else
    HP_FOR_LOCAL(j, n) {
      A mean = 0, squares = 0;
      for (hp_i64 i = begin; i < end; ++i) {
        const A x = reduce_load(base[j * step + reduce_element(&g, i)], 0), delta = x - mean;
        mean += delta / (A)(i - begin + 1);
        squares += delta * (x - mean);
      }
      if (g.count == 0) mean = mean / (A)0;
      if (final) {
        STORE_MOMENTS(reduce_output(&g, output) + j * g.out_stride[0], mean, squares);
      } else {
        means[partial + j] = mean;
        sums[partial + j] = squares;
      }
    }
#endif
  }
}

HP_KERNEL(merge)(HP_GLOBAL R* spread, HP_GLOBAL R* center, HP_GLOBAL const A* means, HP_GLOBAL const A* sums,
                 hp_i64 output_step, hp_i64 part_step, reduce_geometry g) {
  HP_FOR_ELEMENTS(output, g.outputs) {
    A mean = 0, squares = 0;
    for (hp_i64 part = 0; part < g.parts; ++part) {
      const hp_i64 begin = part * g.part, end = begin + g.part < g.count ? begin + g.part : g.count;
      const hp_i64 offset = output * output_step + part * part_step;
      MERGE_MOMENTS(begin, mean, squares, end - begin, means[offset], sums[offset]);
    }
    STORE_MOMENTS(reduce_output(&g, output), mean, squares);
  }
}
