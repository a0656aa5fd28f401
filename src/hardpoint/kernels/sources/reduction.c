/* Reductions by a rule of hardpoint.ops.reduction. R: output. FIRST: 1 if the input is the operator's input, 0 if it is
 * an earlier stage's partial results. LAST: 1 if the output is the operator's output. */
#if !FIRST
#undef MAP
#define MAP (x)
#define MAP_IS_IDENTITY 1
#endif
#include "reduction.h"

HP_FN R reduction_result(A acc, reduce_geometry g) {
#if LAST
  const A p = reduce_number(g);
  const hp_i64 count = g.total;
  (void)p, (void)count;
  return R_put(FINISH);
#else
  return acc;
#endif
}

/* For contiguous elements per output, or few outputs. A task is one part of one output. Work-items combine their
 * results in a tree; the last barrier protects `shared` from the next task. */
HP_KERNEL(rows)(HP_GLOBAL R* out, HP_GLOBAL const T* self, reduce_geometry g, hp_i64 per_group) {
#if !REDUCE_HOST
  HP_LOCAL A shared[HP_LSIZE];
#endif
  const A p = reduce_number(g);
  REDUCE_FOR_TASKS(task, g.outputs * g.parts) {
    REDUCE_ROW(task, output, begin, end, base);
    A acc = INITIAL;
#if REDUCE_HOST
    A level = INITIAL;
    int blocks = 0;
#define ADD(x, n)                                      \
  do {                                                 \
    level = reduce_combine(level, reduce_block(x, n)); \
    if (++blocks == 64) {                              \
      acc = reduce_combine(acc, level);                \
      level = INITIAL;                                 \
      blocks = 0;                                      \
    }                                                  \
  } while (0)
    REDUCE_RUNS(base, begin, end, p, REDUCE_BLOCK, ADD);
#undef ADD
    acc = reduce_combine(acc, level);
    out[LAST ? reduce_output(&g, output) : task] = reduction_result(acc, g);
#else
    if (g.reduced_dims == 1) {
      const hp_i64 step = INNER ? 1 : g.reduced_stride[0];
      for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE) acc = reduce_combine(acc, reduce_load(base[i * step], p));
    } else {
      for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE)
        acc = reduce_combine(acc, reduce_load(base[reduce_element(&g, i)], p));
    }
    shared[hp_lid] = acc;
    hp_barrier();
    for (int width = HP_LSIZE / 2; width > 0; width /= 2) {
      if (hp_lid < width) shared[hp_lid] = reduce_combine(shared[hp_lid], shared[hp_lid + width]);
      hp_barrier();
    }
    if (hp_lid == 0) out[LAST ? reduce_output(&g, output) : task] = reduction_result(shared[0], g);
    hp_barrier();
#endif
  }
}

/* For neighboring outputs, one per lane. A task is one part of REDUCE_COLUMNS outputs; partial results are ordered by
 * part. */
HP_KERNEL(columns)(HP_GLOBAL R* out, HP_GLOBAL const T* self, reduce_geometry g, hp_i64 per_group) {
  const A p = reduce_number(g);
  const hp_i64 width = g.kept_size[0], strips = (width + REDUCE_COLUMNS - 1) / REDUCE_COLUMNS;
  const hp_i64 tasks = g.outputs / width * strips * g.parts, step = INNER ? 1 : g.kept_stride[0];
  REDUCE_FOR_TASKS(task, tasks) {
    REDUCE_STRIP(task, tasks, width, strips, part, column, output, n);
    const hp_i64 begin = part * g.part;
    hp_i64 left = (begin + g.part < g.count ? begin + g.part : g.count) - begin;
    HP_GLOBAL R* const to = out + (LAST ? reduce_output(&g, output) : part * g.outputs + output);
    HP_GLOBAL const T* const base = self + reduce_input(&g, output);
    const hp_i64 to_step = LAST ? g.out_stride[0] : 1;
#if REDUCE_HOST
    A acc[REDUCE_COLUMNS], total[REDUCE_COLUMNS];
    for (hp_i64 j = 0; j < n; ++j) acc[j] = total[j] = INITIAL;
    hp_i64 index[8], since = 0;
    hp_unravel_index(begin, g.reduced_size, (int)g.reduced_dims, index);
    while (left > 0) {
      const T* q = base;
      for (int d = 0; d < g.reduced_dims; ++d) q += index[d] * g.reduced_stride[d];
      hp_i64 run = g.reduced_size[0] - index[0], r = 0;
      run = run < left ? run : left;
      run = run < REDUCE_LEVEL - since ? run : REDUCE_LEVEL - since;
      const hp_i64 down = g.reduced_stride[0];
      for (; r + 4 <= run; r += 4) {
        const T *const q0 = q + r * down, *const q1 = q0 + down, *const q2 = q1 + down, *const q3 = q2 + down;
        HP_VECTORIZE
        for (hp_i64 j = 0; j < n; ++j) {
          A sum = reduce_combine(acc[j], reduce_load(q0[j * step], p));
          sum = reduce_combine(sum, reduce_load(q1[j * step], p));
          sum = reduce_combine(sum, reduce_load(q2[j * step], p));
          acc[j] = reduce_combine(sum, reduce_load(q3[j * step], p));
        }
      }
      for (; r < run; ++r) {
        const T* const q0 = q + r * down;
        HP_VECTORIZE
        for (hp_i64 j = 0; j < n; ++j) acc[j] = reduce_combine(acc[j], reduce_load(q0[j * step], p));
      }
      since += run;
      if (since == REDUCE_LEVEL) {
        for (hp_i64 j = 0; j < n; ++j) {
          total[j] = reduce_combine(total[j], acc[j]);
          acc[j] = INITIAL;
        }
        since = 0;
      }
      left -= run;
      index[0] += run;
      hp_carry_coordinates(g.reduced_size, (int)g.reduced_dims, index);
    }
    for (hp_i64 j = 0; j < n; ++j) to[j * to_step] = reduction_result(reduce_combine(total[j], acc[j]), g);
#else
    HP_FOR_LOCAL(j, n) {
      A acc = INITIAL, level = INITIAL;
      for (hp_i64 i = 0; i < left; ++i) {
        level = reduce_combine(level, reduce_load(base[j * step + reduce_element(&g, begin + i)], p));
        if (i % REDUCE_LEVEL == REDUCE_LEVEL - 1) {
          acc = reduce_combine(acc, level);
          level = INITIAL;
        }
      }
      to[j * to_step] = reduction_result(reduce_combine(acc, level), g);
    }
#endif
  }
}
