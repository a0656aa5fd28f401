/* Reads by index. T: elements, I: indices. Sizes and strides count elements, fastest dimension first. `limit` and
 * `step` are the size and stride of the indexed dimension; `wrap` is added to negative indices. An index out of range
 * reports a fault and yields zero. */
#include "fault.h"
#include "index_math.h"

typedef struct {
  hp_i64 size[8], out[8], self[8], index[8];
} read_geometry;

typedef struct {
  hp_i64 size[8], index[8];
} positions_geometry;

/* Folds several index tensors into one tensor of offsets: adds one index tensor to those before. Offset -1 marks an
 * index out of range. */
HP_KERNEL(positions)(HP_GLOBAL hp_i64* out, HP_GLOBAL const I* index, HP_GLOBAL hp_i64* fault, hp_i64 code,
                     hp_i64 elements, hp_i64 limit, hp_i64 step, hp_i64 earlier, positions_geometry g) {
  HP_FOR_ELEMENTS(i, elements) {
    hp_i64 place = i * g.index[0];
#if DIMS > 1
    hp_i64 rest = i;
    place = 0;
    for (int d = 0; d < DIMS; ++d) {
      place += rest % g.size[d] * g.index[d];
      rest /= g.size[d];
    }
#endif
    const hp_i64 given = (hp_i64)index[place], at = given + (given < 0 ? limit : 0), before = earlier ? out[i] : 0;
    const int inside = HP_INSIDE(at, limit);
    out[i] = inside && before >= 0 ? before + at * step : -1;
    if (!inside) HP_FAULT(given, limit);
  }
}

/* ROW: 1 if the index is constant along the fastest dimension. UNIT: 1 if `out` is contiguous there, and with ROW also
 * `self`, without it also `index`. */
HP_KERNEL(read)(HP_GLOBAL T* out, HP_GLOBAL const T* self, HP_GLOBAL const I* index, HP_GLOBAL hp_i64* fault,
                hp_i64 code, hp_i64 elements, hp_i64 limit, hp_i64 wrap, hp_i64 step, read_geometry g) {
#if HP_LSIZE == 1
  HP_ELEMENT_RANGE(begin, end, elements);
  const hp_i64 q_step = UNIT ? 1 : g.out[0], p_step = UNIT && ROW ? 1 : g.self[0];
  hp_i64 place[DIMS];
  hp_unravel_index(begin, g.size, DIMS, place);
  while (begin < end) {
    hp_i64 run = g.size[0] - place[0];
    run = run < end - begin ? run : end - begin;
    HP_GLOBAL T* q = out;
    HP_GLOBAL const T* p = self;
    HP_GLOBAL const I* n = index;
    for (int d = 0; d < DIMS; ++d) {
      q += place[d] * g.out[d];
      p += place[d] * g.self[d];
      n += place[d] * g.index[d];
    }
#if ROW
    const hp_i64 given = (hp_i64)*n, at = given + (given < 0 ? wrap : 0);
    if (HP_INSIDE(at, limit)) {
      p += at * step;
      HP_VECTORIZE
      for (hp_i64 j = 0; j < run; ++j) q[j * q_step] = p[j * p_step];
    } else {
      for (hp_i64 j = 0; j < run; ++j) q[j * q_step] = (T)0;
      HP_FAULT(given, limit);
    }
#else
    const hp_i64 n_step = UNIT ? 1 : g.index[0];
    for (hp_i64 j = 0; j < run; ++j) {
      const hp_i64 given = (hp_i64)n[j * n_step], at = given + (given < 0 ? wrap : 0);
      if (HP_INSIDE(at, limit)) {
        q[j * q_step] = p[j * p_step + at * step];
      } else {
        q[j * q_step] = (T)0;
        HP_FAULT(given, limit);
      }
    }
#endif
    begin += run;
    place[0] += run;
    hp_carry_coordinates(g.size, DIMS, place);
  }
#else
  HP_FOR_ELEMENTS(i, elements) {
    hp_i64 rest = i, to = 0, from = 0, place = 0;
    for (int d = 0; d < DIMS; ++d) {
      const hp_i64 here = rest % g.size[d];
      rest /= g.size[d];
      to += here * g.out[d];
      from += here * g.self[d];
      place += here * g.index[d];
    }
    const hp_i64 given = (hp_i64)index[place], at = given + (given < 0 ? wrap : 0);
    const int inside = HP_INSIDE(at, limit);
    out[to] = inside ? self[from + at * step] : (T)0;
    if (!inside) HP_FAULT(given, limit);
  }
#endif
}
