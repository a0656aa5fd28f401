/* Largest (LARGEST) or smallest element along one dimension, and the index of its first occurrence. NaN beats any
 * number. T: elements, A: the type they are compared in. VALUES: 1 to write elements as well as indices. Partial
 * results are indices only; `merge` loads the elements again. */
#if LARGEST
#define COMBINE MAXIMUM(acc, x)
#define INITIAL A_LOWEST
#define BEYOND(x, y) ((x) > (y))
#else
#define COMBINE MINIMUM(acc, x)
#define INITIAL A_HIGHEST
#define BEYOND(x, y) ((x) < (y))
#endif
#define MAP (x)
#define MAP_IS_IDENTITY 1
#include "reduction.h"

#define BETTER(x, y) (BEYOND(x, y) || ((x) != (x) && (y) == (y)))
#define SAME(x, y) ((x) == (y) || ((x) != (x) && (y) != (y)))

HP_KERNEL(rows)(HP_GLOBAL T* values, HP_GLOBAL hp_i64* indices, HP_GLOBAL const T* self, hp_i64 final,
                reduce_geometry g, hp_i64 per_group) {
#if !REDUCE_HOST
  HP_LOCAL A shared[HP_LSIZE];
  HP_LOCAL hp_i64 shared_index[HP_LSIZE];
#endif
  REDUCE_FOR_TASKS(task, g.outputs * g.parts) {
    REDUCE_ROW(task, output, begin, end, base);
    HP_GLOBAL T* const value = values + (final ? reduce_output(&g, output) : 0);
    HP_GLOBAL hp_i64* const index_out = indices + (final ? reduce_output(&g, output) : task);
#if REDUCE_HOST
    /* Finds the extreme of each block with vectors, and its index only if it beats all blocks before. */
    A best = reduce_load(base[begin * g.reduced_stride[0]], 0);
    hp_i64 at = begin, passed = begin;
#define LOOK(x, n)                      \
  do {                                  \
    const A found = reduce_block(x, n); \
    if (BETTER(found, best)) {          \
      hp_i64 j = 0;                     \
      while (!SAME((x)[j], found)) ++j; \
      best = found;                     \
      at = passed + j;                  \
    }                                   \
    passed += (n);                      \
  } while (0)
    REDUCE_RUNS(base, begin, end, 0, 2048, LOOK);
#undef LOOK
    *index_out = at;
    if (VALUES && final) *value = base[at * g.reduced_stride[0]];
#else
    /* Work-items without an element repeat the first one. */
    hp_i64 at = begin + hp_lid < end ? begin + hp_lid : begin;
    A best = reduce_load(base[at * g.reduced_stride[0]], 0);
    for (hp_i64 i = at + HP_LSIZE; i < end; i += HP_LSIZE) {
      const A x = reduce_load(base[i * g.reduced_stride[0]], 0);
      if (BETTER(x, best)) {
        best = x;
        at = i;
      }
    }
    shared[hp_lid] = best;
    shared_index[hp_lid] = at;
    hp_barrier();
    for (int width = HP_LSIZE / 2; width > 0; width /= 2) {
      if (hp_lid < width) {
        const A x = shared[hp_lid + width], y = shared[hp_lid];
        if (BETTER(x, y) || (SAME(x, y) && shared_index[hp_lid + width] < shared_index[hp_lid])) {
          shared[hp_lid] = x;
          shared_index[hp_lid] = shared_index[hp_lid + width];
        }
      }
      hp_barrier();
    }
    if (hp_lid == 0) {
      *index_out = shared_index[0];
      if (VALUES && final) *value = base[shared_index[0] * g.reduced_stride[0]];
    }
    hp_barrier();
#endif
  }
}

HP_KERNEL(columns)(HP_GLOBAL T* values, HP_GLOBAL hp_i64* indices, HP_GLOBAL const T* self, hp_i64 final,
                   reduce_geometry g, hp_i64 per_group) {
  const hp_i64 width = g.kept_size[0], strips = (width + REDUCE_COLUMNS - 1) / REDUCE_COLUMNS;
  const hp_i64 tasks = g.outputs / width * strips * g.parts, step = INNER ? 1 : g.kept_stride[0];
  const hp_i64 down = g.reduced_stride[0];
  REDUCE_FOR_TASKS(task, tasks) {
    REDUCE_STRIP(task, tasks, width, strips, part, first, output, n);
    const hp_i64 begin = part * g.part, end = begin + g.part < g.count ? begin + g.part : g.count;
    const hp_i64 to = final ? reduce_output(&g, output) : part * g.outputs + output,
                 to_step = final ? g.out_stride[0] : 1;
    HP_GLOBAL const T* const base = self + reduce_input(&g, output);
#if REDUCE_HOST
    /* Indices count from the start of the part, in a type as wide as the elements: one vector holds as many of both. */
#if defined(A_IS_F64) || defined(A_IS_I64)
    typedef hp_i64 narrow;
#else
    typedef hp_i32 narrow;
#endif
    A best[REDUCE_COLUMNS];
    narrow at[REDUCE_COLUMNS];
    for (hp_i64 j = 0; j < n; ++j) {
      best[j] = reduce_load(base[begin * down + j * step], 0);
      at[j] = 0;
    }
    for (hp_i64 i = begin + 1; i < end; ++i) {
      const T* const row = base + i * down;
      const narrow here = (narrow)(i - begin);
      HP_VECTORIZE
      for (hp_i64 j = 0; j < n; ++j) {
        const A x = reduce_load(row[j * step], 0), y = best[j];
        /* Bit operations: a branch would prevent vectorization. */
        const int better = BEYOND(x, y) | ((x != x) & (y == y));
        best[j] = better ? x : y;
        at[j] = better ? here : at[j];
      }
    }
    for (hp_i64 j = 0; j < n; ++j) {
      indices[to + j * to_step] = begin + at[j];
      if (VALUES && final) values[to + j * to_step] = base[(begin + at[j]) * down + j * step];
    }
#else
    HP_FOR_LOCAL(j, n) {
      hp_i64 at = begin;
      A best = reduce_load(base[begin * down + j * step], 0);
      for (hp_i64 i = begin + 1; i < end; ++i) {
        const A x = reduce_load(base[i * down + j * step], 0);
        if (BETTER(x, best)) {
          best = x;
          at = i;
        }
      }
      indices[to + j * to_step] = at;
      if (VALUES && final) values[to + j * to_step] = base[at * down + j * step];
    }
#endif
  }
}

/* Merges an output's parts in order, so the first of equal elements wins. Partial indices are laid out like the
 * parts. */
HP_KERNEL(merge)(HP_GLOBAL T* values, HP_GLOBAL hp_i64* indices, HP_GLOBAL const T* self,
                 HP_GLOBAL const hp_i64* partial, hp_i64 parts, hp_i64 output_step, hp_i64 part_step,
                 reduce_geometry g) {
  HP_FOR_ELEMENTS(output, g.outputs) {
    HP_GLOBAL const T* const base = self + reduce_input(&g, output);
    hp_i64 at = partial[output * output_step];
    A best = reduce_load(base[at * g.reduced_stride[0]], 0);
    for (hp_i64 part = 1; part < parts; ++part) {
      const hp_i64 other = partial[output * output_step + part * part_step];
      const A x = reduce_load(base[other * g.reduced_stride[0]], 0);
      if (BETTER(x, best)) {
        best = x;
        at = other;
      }
    }
    const hp_i64 to = reduce_output(&g, output);
    indices[to] = at;
    if (VALUES) values[to] = base[at * g.reduced_stride[0]];
  }
}
