/* Common code of reductions. T: elements in memory, A: accumulator type. The including file defines COMBINE
 * (accumulates element `x` into `acc`), INITIAL (the initial value) and MAP (maps element `x` before accumulation).
 * INNER: 1 if elements are contiguous along the first reduced (rows) or kept (columns) dimension. */
#include "index_math.h"

typedef struct {
  hp_i64 outputs, count;          /* output elements, and input elements per output */
  hp_i64 parts, part;             /* parts that `count` is split into, and elements per part */
  hp_i64 total;                   /* input elements per output, over all stages */
  hp_i64 number_f32, number_f64;  /* bits of the rule's parameter, as f32 and f64 */
  hp_i64 reduced_dims, kept_dims; /* fastest first */
  hp_i64 reduced_size[8], reduced_stride[8];
  hp_i64 kept_size[8], kept_stride[8], out_stride[8];
} reduce_geometry;

#if (defined(T_IS_F32) && defined(A_IS_F32)) || (defined(T_IS_F64) && defined(A_IS_F64)) || \
    (defined(T_IS_I64) && defined(A_IS_I64)) || (defined(T_IS_I32) && defined(A_IS_I32)) || \
    (defined(T_IS_I16) && defined(A_IS_I16)) || (defined(T_IS_I8) && defined(A_IS_I8)) ||   \
    (defined(T_IS_U8) && defined(A_IS_U8))
#define REDUCE_SAME 1
#else
#define REDUCE_SAME 0
#endif

/* Columns per task, elements gathered before they are reduced, elements per block, and elements that one accumulator
 * sums in sequence: long sums stay accurate by summing in several levels. */
enum { REDUCE_COLUMNS = 256, REDUCE_BUFFER = 1024, REDUCE_BLOCK = 4096, REDUCE_LEVEL = 64 };

HP_FN A reduce_number(reduce_geometry g) {
#ifdef A_IS_F64
  return hp_from_bits_f64((hp_u64)g.number_f64);
#else
  return (A)hp_from_bits_f32((hp_u32)g.number_f32);
#endif
}

HP_FN A reduce_maximum(A a, A x) { return x > a || x != x ? x : a; }
HP_FN A reduce_minimum(A a, A x) { return x < a || x != x ? x : a; }

#define MAXIMUM reduce_maximum
#define MINIMUM reduce_minimum
HP_FN A reduce_combine(A acc, A x) { return (A)(COMBINE); }
#undef MAXIMUM
#undef MINIMUM

HP_FN A reduce_load(T stored, A p) {
  const T_c x = T_get(stored);
  (void)p;
  return (A)(MAP);
}

/* Memory offset of element `number` of a shape with `dims` dimensions. The last one needs no division. */
HP_FN hp_i64 reduce_offset(hp_i64 number, hp_i64 dims, const hp_i64* size, const hp_i64* stride) {
  hp_i64 offset = 0;
  for (int d = 0; d + 1 < dims; ++d) offset += hp_next_coordinate(&number, size[d]) * stride[d];
  return dims > 0 ? offset + number * stride[dims - 1] : 0;
}
HP_FN hp_i64 reduce_input(const reduce_geometry* g, hp_i64 output) {
  return reduce_offset(output, g->kept_dims, g->kept_size, g->kept_stride);
}
HP_FN hp_i64 reduce_output(const reduce_geometry* g, hp_i64 output) {
  return reduce_offset(output, g->kept_dims, g->kept_size, g->out_stride);
}
HP_FN hp_i64 reduce_element(const reduce_geometry* g, hp_i64 element) {
  return reduce_offset(element, g->reduced_dims, g->reduced_size, g->reduced_stride);
}

/* Loop over this work-group's tasks. */
#define REDUCE_FOR_TASKS(task, all)                                                                 \
  for (hp_i64 task = hp_group * per_group,                                                          \
              task##_end = (hp_group + 1) * per_group < (all) ? (hp_group + 1) * per_group : (all); \
       task < task##_end; ++task)
/* For tasks that are one part of one output: the output, the part's range of elements, and their base pointer. */
#define REDUCE_ROW(task, output, begin, end, base)                                                        \
  const hp_i64 output = g.parts == 1 ? task : task / g.parts, begin = (task - output * g.parts) * g.part; \
  const hp_i64 end = begin + g.part < g.count ? begin + g.part : g.count;                                 \
  HP_GLOBAL const T* const base = self + reduce_input(&g, output)
/* For tasks that are one part of up to REDUCE_COLUMNS neighboring outputs, in lines of `width`: the part, the first
 * output's column and index, and the number of outputs. */
#define REDUCE_STRIP(task, tasks, width, strips, part, offset, output, n)                                        \
  const hp_i64 part = task / (tasks / g.parts), task##_strip = task % (tasks / g.parts);                         \
  const hp_i64 offset = task##_strip % strips * REDUCE_COLUMNS, output = task##_strip / strips * width + offset; \
  const hp_i64 n = width - offset < REDUCE_COLUMNS ? width - offset : REDUCE_COLUMNS

/* Host kernels: a group is one CPU thread. */
#if HP_LSIZE == 1 && defined(HP_DIALECT_HOST)
#define REDUCE_HOST 1
#else
#define REDUCE_HOST 0
#endif

#if REDUCE_HOST
/* Explicit vectors: left alone, compilers keep the lanes in memory. */
typedef A reduce_vector __attribute__((vector_size(64)));
typedef A reduce_unaligned __attribute__((vector_size(64), aligned(1), may_alias));
enum { REDUCE_LANES = 64 / sizeof(A) };

HP_FN reduce_vector reduce_vector_select(reduce_vector a, reduce_vector x, reduce_vector better) {
  typedef hp_i64 words __attribute__((vector_size(64)));
  return (reduce_vector)(((words)x & (words)better) | ((words)a & ~(words)better));
}
HP_FN reduce_vector reduce_vector_maximum(reduce_vector a, reduce_vector x) {
  return reduce_vector_select(a, x, (reduce_vector)((x > a) | (x != x)));
}
HP_FN reduce_vector reduce_vector_minimum(reduce_vector a, reduce_vector x) {
  return reduce_vector_select(a, x, (reduce_vector)((x < a) | (x != x)));
}
#define MAXIMUM reduce_vector_maximum
#define MINIMUM reduce_vector_minimum
HP_FN reduce_vector reduce_vector_combine(reduce_vector acc, reduce_vector x) { return COMBINE; }
#undef MAXIMUM
#undef MINIMUM

/* Reduces all lanes to one, by halves. Vector code, because scalar code would branch. */
#if defined(A_IS_F64) || defined(A_IS_I64)
typedef hp_i64 reduce_lane;
#elif defined(A_IS_I16)
typedef hp_i16 reduce_lane;
#elif defined(A_IS_I8) || defined(A_IS_U8)
typedef hp_i8 reduce_lane;
#else
typedef hp_i32 reduce_lane;
#endif
typedef reduce_lane reduce_indices __attribute__((vector_size(64)));
HP_FN A reduce_lanes(reduce_vector v) {
  reduce_indices offset;
  for (int l = 0; l < REDUCE_LANES; ++l) offset[l] = l;
  for (int width = REDUCE_LANES / 2; width > 0; width /= 2)
    v = reduce_vector_combine(v, __builtin_shuffle(v, (offset + (reduce_lane)width) & (reduce_lane)(REDUCE_LANES - 1)));
  return v[0];
}

/* Reduces up to REDUCE_BLOCK contiguous elements. */
HP_FN A reduce_block(const A* x, hp_i64 n) {
  enum { L = REDUCE_LANES };
  A acc = INITIAL;
  hp_i64 j = 0;
  if (n >= L) {
    const reduce_vector start = *(const reduce_unaligned*)x;
    reduce_vector a = start;
    j = L;
    if (n >= 5 * L) {
      reduce_vector b = *(const reduce_unaligned*)(x + j), c = *(const reduce_unaligned*)(x + j + L),
                    d = *(const reduce_unaligned*)(x + j + 2 * L);
      for (j = 4 * L; j + 4 * L <= n; j += 4 * L) {
        a = reduce_vector_combine(a, *(const reduce_unaligned*)(x + j));
        b = reduce_vector_combine(b, *(const reduce_unaligned*)(x + j + L));
        c = reduce_vector_combine(c, *(const reduce_unaligned*)(x + j + 2 * L));
        d = reduce_vector_combine(d, *(const reduce_unaligned*)(x + j + 3 * L));
      }
      a = reduce_vector_combine(reduce_vector_combine(a, b), reduce_vector_combine(c, d));
    }
    for (; j + L <= n; j += L) a = reduce_vector_combine(a, *(const reduce_unaligned*)(x + j));
    acc = reduce_lanes(a);
  }
  for (; j < n; ++j) acc = reduce_combine(acc, x[j]);
  return acc;
}

/* Passes elements `begin` to `end` of one output, from `base`, to `PROCESS(x, n)` in blocks of `n` mapped, contiguous
 * elements. Short or scattered runs are gathered in a buffer first. */
#if INNER && REDUCE_SAME && defined(MAP_IS_IDENTITY)
#define REDUCE_DIRECT 1
#else
#define REDUCE_DIRECT 0
#endif
#define REDUCE_RUNS(base, begin, end, number, block, PROCESS)                       \
  do {                                                                              \
    A buffer[REDUCE_BUFFER];                                                        \
    hp_i64 index[8], rest = (begin), left = (end) - (begin), filled = 0;            \
    for (int d = 0; d < g.reduced_dims; ++d) {                                      \
      index[d] = d + 1 < g.reduced_dims ? rest % g.reduced_size[d] : rest;          \
      if (d + 1 < g.reduced_dims) rest /= g.reduced_size[d];                        \
    }                                                                               \
    while (left > 0) {                                                              \
      const T* q = (base);                                                          \
      for (int d = 0; d < g.reduced_dims; ++d) q += index[d] * g.reduced_stride[d]; \
      hp_i64 run = g.reduced_size[0] - index[0];                                    \
      run = run < left ? run : left;                                                \
      if (REDUCE_DIRECT && run >= 128) {                                            \
        run = run < (block) ? run : (block);                                        \
        PROCESS((const A*)q, run);                                                  \
      } else {                                                                      \
        run = run < REDUCE_BUFFER - filled ? run : REDUCE_BUFFER - filled;          \
        const hp_i64 step = INNER ? 1 : g.reduced_stride[0];                        \
        A* const to = buffer + filled;                                              \
        HP_VECTORIZE                                                                \
        for (hp_i64 j = 0; j < run; ++j) to[j] = reduce_load(q[j * step], number);  \
        filled += run;                                                              \
        if (filled == REDUCE_BUFFER) {                                              \
          PROCESS(buffer, REDUCE_BUFFER);                                           \
          filled = 0;                                                               \
        }                                                                           \
      }                                                                             \
      left -= run;                                                                  \
      index[0] += run;                                                              \
      hp_carry_coordinates(g.reduced_size, (int)g.reduced_dims, index);             \
    }                                                                               \
    if (filled > 0) PROCESS(buffer, filled);                                        \
  } while (0)
#endif
