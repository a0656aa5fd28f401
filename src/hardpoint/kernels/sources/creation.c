/* Fills and sequences. T: elements. */
#include "index_math.h"

typedef struct {
  hp_i64 size[8], to[8];
} fill_geometry;

/* T: an integer type of the element size; the value is passed as its bits. DIMS: dimensions, fastest first. INNER: 1 if
 * the first dimension is contiguous. */
HP_KERNEL(fill)(HP_GLOBAL T* out, hp_i64 elements, hp_i64 value, fill_geometry g) {
  HP_ELEMENT_RANGE(begin, end, elements);
  const T word = (T)value;
#if HP_LSIZE == 1
  while (begin < end) {
    hp_i64 rest = begin / g.size[0];
    const hp_i64 first = begin % g.size[0];
    hp_i64 run = g.size[0] - first;
    run = run < end - begin ? run : end - begin;
    HP_GLOBAL T* p = out + first * g.to[0];
    for (int d = 1; d < DIMS; ++d) {
      p += rest % g.size[d] * g.to[d];
      rest /= g.size[d];
    }
    HP_VECTORIZE
    for (hp_i64 j = 0; j < run; ++j) p[INNER ? j : j * g.to[0]] = word;
    begin += run;
  }
#else
  for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE) {
    hp_i64 rest = i, at = 0;
    for (int d = 0; d < DIMS; ++d) at += (d + 1 < DIMS ? hp_next_coordinate(&rest, g.size[d]) : rest) * g.to[d];
    out[at] = word;
  }
#endif
}

/* A: accumulator type. */
HP_KERNEL(arange)(HP_GLOBAL T* out, hp_i64 elements, A start, A step) {
  HP_VECTORIZE
  HP_FOR_ELEMENTS(i, elements) out[i] = T_put((T_c)(start + step * (A)i));
}

/* Computed from both ends toward the middle, so that the last element is exact. LOG: 1 for logspace, powers of
 * `base`. */
HP_KERNEL(linspace)(HP_GLOBAL T* out, hp_i64 elements, A start, A end, A step, A base) {
  HP_FOR_ELEMENTS(i, elements) {
    const A value = i < elements / 2 ? start + step * (A)i : end - step * (A)(elements - i - 1);
    out[i] = T_put((T_c)(LOG ? A_M(pow)(base, value) : value));
  }
}

/* An element consists of `parts` numbers (2 if complex), the real part first. */
HP_KERNEL(eye)(HP_GLOBAL T* out, hp_i64 elements, hp_i64 columns, hp_i64 parts) {
  const hp_i64 width = columns * parts;
  HP_FOR_ELEMENTS(i, elements) out[i] = T_put((T_c)(i / width * parts == i % width));
}
