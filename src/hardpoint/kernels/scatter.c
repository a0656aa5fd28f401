/* Writing by index. T: the elements, I: the indices. Sizes and strides count elements, fastest dimension first. The
 * first ROWS dimensions are walked in order, so that the last of several writes to a place wins and sums have one
 * order; the columns, COLS further dimensions, never share a place. A group owns a block of columns and a range of the
 * dimension that the indices are for: its work depends on no other group. An index out of range writes nothing.
 * OPERATION: 0 sets, 1 adds, 2 multiplies, 3 takes the greatest, 4 the smallest. */
#include "fault.h"

#define DIMS (ROWS + COLS)

typedef struct {
  hp_i64 size[8], self[8], values[8], index[8];
} write_geometry;

typedef struct {
  hp_i64 rows, columns, columns_per_group, column_groups, places_per_group, limit, wrap, step;
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

/* Each run of columns that lie side by side in the first of their dimensions goes through all rows. FIXED: they have
 * the index in common. UNIT: they follow each other in self, and in values. */
HP_KERNEL(rows)(HP_GLOBAL T* self, HP_GLOBAL const T* values, HP_GLOBAL const I* index, HP_GLOBAL hp_i64* fault,
                hp_i64 code, write_shares s, write_geometry g) {
  const hp_i64 low = hp_group / s.column_groups * s.places_per_group;
  const hp_i64 high = low + s.places_per_group < s.limit ? low + s.places_per_group : s.limit;
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
    hp_i64 place[ROWS];
    for (int d = 0; d < ROWS; ++d) place[d] = 0;
    for (hp_i64 row = 0; row < s.rows; ++row) {
#if FIXED
      const hp_i64 given = (hp_i64)*n, at = given + (given < 0 ? s.wrap : 0);
      if (at >= low && at < high) {
        HP_GLOBAL T* const to = q + at * s.step;
        HP_VECTORISE
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
      ++place[0];
      for (int d = 0; d + 1 < ROWS && place[d] == g.size[d]; ++d) {
        place[d] = 0;
        ++place[d + 1];
        p += g.values[d + 1] - g.size[d] * g.values[d];
        n += g.index[d + 1] - g.size[d] * g.index[d];
      }
    }
    begin += run;
  }
}

/* One column after the other, each through all rows; ROWS is 1. UNIT: indices and values of a column are side by side.
 */
HP_KERNEL(lines)(HP_GLOBAL T* self, HP_GLOBAL const T* values, HP_GLOBAL const I* index, HP_GLOBAL hp_i64* fault,
                 hp_i64 code, write_shares s, write_geometry g) {
  const hp_i64 low = hp_group / s.column_groups * s.places_per_group;
  const hp_i64 high = low + s.places_per_group < s.limit ? low + s.places_per_group : s.limit;
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
