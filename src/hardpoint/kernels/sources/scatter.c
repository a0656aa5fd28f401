/* Writes by index. T: elements, I: indices. Sizes and strides count elements, fastest dimension first. The first ROWS
 * dimensions are processed in order, so that the last of several writes wins and sums have a fixed order. The COLS
 * further dimensions (columns) never write to the same element. A work-group owns a block of columns and a range of the
 * indexed dimension; it depends on no other group, so no atomics are needed. An index out of range reports a fault and
 * writes nothing. OPERATION: 0 set, 1 add, 2 multiply, 3 maximum, 4 minimum. */
#include "fault.h"

#define DIMS (ROWS + COLS)

typedef struct {
  hp_i64 size[8], self[8], values[8], index[8];
} write_geometry;

typedef struct {
  hp_i64 rows, columns, columns_per_group, column_groups, indices_per_group, limit, wrap, step;
} write_shares;

#if OPERATION == 0
#define COMBINE(old, new) (new)
#elif OPERATION == 1
#define COMBINE(old, new) T_put((T_c)(T_get(old) + T_get(new)))
#elif OPERATION == 2
#define COMBINE(old, new) T_put((T_c)(T_get(old) * T_get(new)))
#elif OPERATION == 3
#define COMBINE(old, new) (T_get(old) > T_get(new) || T_get(old) != T_get(old) ? (old) : (new))
#else
#define COMBINE(old, new) (T_get(old) < T_get(new) || T_get(old) != T_get(old) ? (old) : (new))
#endif

/* Each run of neighboring columns processes all rows. FIXED: 1 if they share the index. UNIT: 1 if they are contiguous
 * in `self` and `values`. */
HP_KERNEL(rows)(HP_GLOBAL T* self, HP_GLOBAL const T* values, HP_GLOBAL const I* index, HP_GLOBAL hp_i64* fault,
                hp_i64 code, write_shares s, write_geometry g) {
  const hp_i64 low = hp_group / s.column_groups * s.indices_per_group;
  const hp_i64 high = low + s.indices_per_group < s.limit ? low + s.indices_per_group : s.limit;
  hp_i64 begin = hp_group % s.column_groups * s.columns_per_group;
  const hp_i64 end = begin + s.columns_per_group < s.columns ? begin + s.columns_per_group : s.columns;
  const hp_i64 q_step = UNIT ? 1 : g.self[ROWS], p_step = UNIT ? 1 : g.values[ROWS];
  while (begin < end) {
    HP_GLOBAL T* q = self;
    HP_GLOBAL const T* p = values;
    HP_GLOBAL const I* n = index;
    hp_i64 rest = begin, run = 0;
    for (int d = ROWS; d < DIMS; ++d) {
      const hp_i64 here = rest % g.size[d];
      rest /= g.size[d];
      q += here * g.self[d];
      p += here * g.values[d];
      n += here * g.index[d];
      if (d == ROWS) run = g.size[d] - here;
    }
    run = run < end - begin ? run : end - begin;
    hp_i64 coordinate[ROWS];
    for (int d = 0; d < ROWS; ++d) coordinate[d] = 0;
    for (hp_i64 row = 0; row < s.rows; ++row) {
#if FIXED
      const hp_i64 given = (hp_i64)*n, at = given + (given < 0 ? s.wrap : 0);
      if (at >= low && at < high) {
        HP_GLOBAL T* const to = q + at * s.step;
        HP_VECTORIZE
        HP_FOR_LOCAL(j, run) to[j * q_step] = COMBINE(to[j * q_step], p[j * p_step]);
      } else if (!HP_INSIDE(at, s.limit)) {
        HP_FAULT(given, s.limit);
      }
#else
      HP_FOR_LOCAL(j, run) {
        const hp_i64 given = (hp_i64)n[j * g.index[ROWS]], at = given + (given < 0 ? s.wrap : 0);
        if (at >= low && at < high) {
          HP_GLOBAL T* const to = q + at * s.step + j * q_step;
          *to = COMBINE(*to, p[j * p_step]);
        } else if (!HP_INSIDE(at, s.limit)) {
          HP_FAULT(given, s.limit);
        }
      }
#endif
      p += g.values[0];
      n += g.index[0];
      ++coordinate[0];
      for (int d = 0; d + 1 < ROWS && coordinate[d] == g.size[d]; ++d) {
        coordinate[d] = 0;
        ++coordinate[d + 1];
        p += g.values[d + 1] - g.size[d] * g.values[d];
        n += g.index[d + 1] - g.size[d] * g.index[d];
      }
    }
    begin += run;
  }
}

/* One column after the other, each through all rows; ROWS is 1. UNIT: 1 if a column's indices and values are
 * contiguous. */
HP_KERNEL(lines)(HP_GLOBAL T* self, HP_GLOBAL const T* values, HP_GLOBAL const I* index, HP_GLOBAL hp_i64* fault,
                 hp_i64 code, write_shares s, write_geometry g) {
  const hp_i64 low = hp_group / s.column_groups * s.indices_per_group;
  const hp_i64 high = low + s.indices_per_group < s.limit ? low + s.indices_per_group : s.limit;
  const hp_i64 begin = hp_group % s.column_groups * s.columns_per_group;
  const hp_i64 end = begin + s.columns_per_group < s.columns ? begin + s.columns_per_group : s.columns;
  const hp_i64 p_step = UNIT ? 1 : g.values[0], n_step = UNIT ? 1 : g.index[0];
  HP_FOR_LOCAL(c, end - begin) {
    HP_GLOBAL T* q = self;
    HP_GLOBAL const T* p = values;
    HP_GLOBAL const I* n = index;
    hp_i64 rest = begin + c;
    for (int d = ROWS; d < DIMS; ++d) {
      const hp_i64 here = rest % g.size[d];
      rest /= g.size[d];
      q += here * g.self[d];
      p += here * g.values[d];
      n += here * g.index[d];
    }
    for (hp_i64 row = 0; row < s.rows; ++row) {
      const hp_i64 given = (hp_i64)n[row * n_step], at = given + (given < 0 ? s.wrap : 0);
      if (at >= low && at < high) {
        HP_GLOBAL T* const to = q + at * s.step;
        *to = COMBINE(*to, p[row * p_step]);
      } else if (!HP_INSIDE(at, s.limit)) {
        HP_FAULT(given, s.limit);
      }
    }
  }
}
