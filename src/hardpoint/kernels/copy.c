/* Copies with any strides and dtype conversion. R: written, T: read. DIMS: dimensions, fastest first. INNER: along the
 * first, 2 if both sides are contiguous, 3 if the source runs backwards, 1 if only the destination is, else 0. */
typedef struct {
  hp_i64 size[8], to[8], from[8];
} copy_geometry;

HP_KERNEL(strided)(HP_GLOBAL R* to, HP_GLOBAL const T* from, hp_i64 elements, copy_geometry g) {
  HP_ELEMENT_RANGE(begin, end, elements);
#if HP_LSIZE == 1
  hp_i64 index[DIMS], rest = begin;
  for (int d = 0; d < DIMS; ++d) {
    index[d] = rest % g.size[d];
    rest /= g.size[d];
  }
  while (begin < end) {
    hp_i64 run = g.size[0] - index[0];
    run = run < end - begin ? run : end - begin;
    HP_GLOBAL R* q = to;
    HP_GLOBAL const T* p = from;
    for (int d = 0; d < DIMS; ++d) {
      q += index[d] * g.to[d];
      p += index[d] * g.from[d];
    }
    HP_VECTORISE
    for (hp_i64 j = 0; j < run; ++j) {
#if INNER == 2
      q[j] = R_put((R_c)T_get(p[j]));
#elif INNER == 3
      q[j] = R_put((R_c)T_get(p[-j]));
#elif INNER == 1
      q[j] = R_put((R_c)T_get(p[j * g.from[0]]));
#else
      q[j * g.to[0]] = R_put((R_c)T_get(p[j * g.from[0]]));
#endif
    }
    begin += run;
    index[0] += run;
    for (int d = 0; d + 1 < DIMS && index[d] == g.size[d]; ++d) {
      index[d] = 0;
      ++index[d + 1];
    }
  }
#else
  for (hp_i64 i = begin + hp_lid; i < end; i += HP_LSIZE) {
    hp_i64 rest = i, a = 0, b = 0;
    for (int d = 0; d < DIMS; ++d) {
      const hp_i64 index = rest % g.size[d];
      rest /= g.size[d];
      a += index * g.to[d];
      b += index * g.from[d];
    }
    to[a] = R_put((R_c)T_get(from[b]));
  }
#endif
}
