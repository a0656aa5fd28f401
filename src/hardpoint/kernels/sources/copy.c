/* Strided copies with dtype conversion. R: destination, T: source. DIMS: dimensions, fastest first. INNER, the layout
 * along the first dimension: 2 both contiguous, 3 contiguous destination and reversed source, 1 contiguous destination
 * only, 0 neither. */
#include "index_math.h"
#include "vector_access.h"
#if defined(T_IS_FLOAT8) || defined(R_IS_FLOAT8)
#include "float8.h"
#endif

typedef struct {
  hp_i64 size[8], to[8], from[8];
} copy_geometry;

/* Conversions as on torch's CPU: nonzero (including NaN) is true; negative numbers wrap in uint8; small integers are
 * converted through a wider one, because in C a value out of range is undefined. */
#if defined(T_IS_COMPLEX) && defined(R_IS_COMPLEX)
#define COPY_CONVERT(x) R_M(make)((R_part)(x).re, (R_part)(x).im)
#elif defined(R_IS_COMPLEX)
#define COPY_CONVERT(x) R_M(real)((R_part)(x))
#elif defined(T_IS_COMPLEX) && defined(R_IS_BOOL)
#define COPY_CONVERT(x) ((R)T_M(truth)(x))
#elif defined(T_IS_COMPLEX) && (defined(R_IS_U8) || defined(R_IS_UNSIGNED) || defined(R_IS_I8) || defined(R_IS_I16))
#define COPY_CONVERT(x) ((R)(hp_i64)(x).re)
#elif defined(T_IS_COMPLEX)
#define COPY_CONVERT(x) R_put((R_c)(x).re)
#elif defined(R_IS_BOOL)
#define COPY_CONVERT(x) R_put(x)
#elif defined(T_IS_FLOAT) && T_IS_FLOAT && defined(R_IS_U64)
#define COPY_CONVERT(x) ((x) < 9.2e18f ? (R)(hp_i64)(x) : (R)(x))
#elif defined(T_IS_FLOAT) && T_IS_FLOAT && (defined(R_IS_U8) || defined(R_IS_UNSIGNED))
#define COPY_CONVERT(x) ((R)(hp_i64)(x))
#elif defined(T_IS_FLOAT) && T_IS_FLOAT && (defined(R_IS_I8) || defined(R_IS_I16))
#define COPY_CONVERT(x) ((R)(hp_i32)(x))
#else
#define COPY_CONVERT(x) R_put((R_c)(x))
#endif

#if HP_LSIZE == 1 && (defined(T_IS_F16) || defined(R_IS_F16)) && !defined(T_IS_COMPLEX) && !defined(R_IS_COMPLEX)
/* Contiguous float16 is converted in runs. */
#define COPY_STAGED 1
#if defined(T_IS_F16) && defined(R_IS_F32)
#define COPY_WIDEN 1
#elif defined(R_IS_F16) && defined(T_IS_F32)
#define COPY_NARROW 1
#endif
#else
#define COPY_STAGED 0
#endif

/* Offsets of element `rest` on both sides; consumes `rest`. Contiguous dimensions need no multiplication. */
#define COPY_OFFSETS(rest, a, b)                                                           \
  do {                                                                                     \
    (a) = (b) = 0;                                                                         \
    for (int d = 0; d < DIMS; ++d) {                                                       \
      const hp_i64 index = d + 1 < DIMS ? hp_next_coordinate(&(rest), g.size[d]) : (rest); \
      (a) += INNER != 0 && d == 0 ? index : index * g.to[d];                               \
      (b) += INNER == 2 && d == 0 ? index : index * g.from[d];                             \
    }                                                                                      \
  } while (0)

HP_KERNEL(strided)(HP_GLOBAL R* to, HP_GLOBAL const T* from, hp_i64 elements, copy_geometry g) {
  HP_ELEMENT_RANGE(begin, end, elements);
#if HP_LSIZE == 1
  hp_i64 index[DIMS];
  hp_unravel_index(begin, g.size, DIMS, index);
  while (begin < end) {
    hp_i64 run = g.size[0] - index[0];
    run = run < end - begin ? run : end - begin;
    HP_GLOBAL R* q = to;
    HP_GLOBAL const T* p = from;
    for (int d = 0; d < DIMS; ++d) {
      q += index[d] * g.to[d];
      p += index[d] * g.from[d];
    }
#if INNER == 2 && defined(COPY_WIDEN)
    hp_load_run_f16(q, p, run);
#elif INNER == 2 && defined(COPY_NARROW)
    hp_store_run_f16(q, p, run);
#elif INNER == 2 && COPY_STAGED
    for (hp_i64 at = 0; at < run; at += HP_STAGE) {
      const hp_i64 part = run - at < HP_STAGE ? run - at : HP_STAGE;
      float stage[HP_STAGE];
#ifdef T_IS_F16
      hp_load_run_f16(stage, p + at, part);
      HP_VECTORIZE
      for (hp_i64 j = 0; j < part; ++j) q[at + j] = COPY_CONVERT(stage[j]);
#else
      HP_VECTORIZE
      for (hp_i64 j = 0; j < part; ++j) stage[j] = (float)T_get(p[at + j]);
      hp_store_run_f16(q + at, stage, part);
#endif
    }
#else
    HP_VECTORIZE
    for (hp_i64 j = 0; j < run; ++j) {
#if INNER == 2
      q[j] = COPY_CONVERT(T_get(p[j]));
#elif INNER == 3
      q[j] = COPY_CONVERT(T_get(p[-j]));
#elif INNER == 1
      q[j] = COPY_CONVERT(T_get(p[j * g.from[0]]));
#else
      q[j * g.to[0]] = COPY_CONVERT(T_get(p[j * g.from[0]]));
#endif
    }
#endif
    begin += run;
    index[0] += run;
    hp_carry_coordinates(g.size, DIMS, index);
  }
#else
  /* Each work-item issues all its loads before the first store, so that the loads overlap. */
  enum { EACH = HP_ELEMENTS / HP_LSIZE };
#if INNER == 2
  enum { WIDER = sizeof(T) > sizeof(R) ? sizeof(T) : sizeof(R) };
  enum { PACK = 16 / WIDER < EACH ? 16 / WIDER : EACH, PACKS = EACH / PACK };
  HP_PACK_TYPE(pack_from, T, PACK);
  HP_PACK_TYPE(pack_to, R, PACK);
  int fits = PACK > 1 && end - begin == HP_ELEMENTS && HP_ALIGNED(to, sizeof(pack_to)) &&
             HP_ALIGNED(from, sizeof(pack_from)) && (DIMS == 1 || g.size[0] % PACK == 0);
  for (int d = 1; d < DIMS; ++d) fits = fits && (g.to[d] | g.from[d]) % PACK == 0;
  if (fits) {
    pack_from read[PACKS];
    hp_i64 offsets[PACKS];
    for (int k = 0; k < PACKS; ++k) {
      hp_i64 rest = begin + (hp_lid + k * HP_LSIZE) * PACK, b;
      COPY_OFFSETS(rest, offsets[k], b);
      read[k] = *(HP_GLOBAL const pack_from*)(from + b);
    }
    for (int k = 0; k < PACKS; ++k) {
      pack_to written;
      for (int u = 0; u < PACK; ++u) written.at[u] = COPY_CONVERT(T_get(read[k].at[u]));
      *(HP_GLOBAL pack_to*)(to + offsets[k]) = written;
    }
    return;
  }
#endif
  T taken[EACH];
  hp_i64 offset[EACH];
  for (int k = 0; k < EACH; ++k) {
    const hp_i64 i = begin + hp_lid + k * HP_LSIZE;
    if (i >= end) continue;
    hp_i64 rest = i, b;
    COPY_OFFSETS(rest, offset[k], b);
    taken[k] = from[b];
  }
  for (int k = 0; k < EACH; ++k) {
    if (begin + hp_lid + k * HP_LSIZE < end) to[offset[k]] = COPY_CONVERT(T_get(taken[k]));
  }
#endif
}

/* Transpose. T: an unsigned integer type of the element size. The destination is contiguous along dimension 0, the
 * source along dimension 1. A work-group transposes one BLOCK x BLOCK block of these two dimensions. */
#if HP_LSIZE == 1
/* Tiles of vector width are transposed in registers. In stage s, each pair of rows s apart exchanges the halves of its
 * groups of 2 s elements. */
#if defined(T_IS_U8)
#define TILE_BYTES 16 /* below AVX-512 VBMI, no instruction permutes bytes across a longer vector */
#elif defined(__AVX512BW__) && !defined(T_IS_I16) /* 32 such rows would use up all registers */
#define TILE_BYTES 64
#elif defined(__AVX2__)
#define TILE_BYTES 32
#else
#define TILE_BYTES 16
#endif
#define TILE_LOW(s, k) ((k) & (s) ? (k) - (s) + COPY_TILE : (k))
#define TILE_HIGH(s, k) ((k) & (s) ? (k) + COPY_TILE : (k) + (s))
#define TILE_2(F, s, k) F(s, k), F(s, (k) + 1)
#define TILE_4(F, s, k) TILE_2(F, s, k), TILE_2(F, s, (k) + 2)
#define TILE_8(F, s, k) TILE_4(F, s, k), TILE_4(F, s, (k) + 4)
#define TILE_16(F, s, k) TILE_8(F, s, k), TILE_8(F, s, (k) + 8)
#define TILE_JOIN(a, b) a##b
#define TILE_LANES(n) TILE_JOIN(TILE_, n)
#define TILE_STAGE(s)                                                                     \
  for (int i = 0; i < COPY_TILE; ++i) {                                                   \
    if (i & (s)) continue;                                                                \
    const tile_row a = row[i], b = row[i + (s)];                                          \
    row[i] = __builtin_shufflevector(a, b, TILE_LANES(COPY_TILE)(TILE_LOW, s, 0));        \
    row[i + (s)] = __builtin_shufflevector(a, b, TILE_LANES(COPY_TILE)(TILE_HIGH, s, 0)); \
  }
/* TILE_BYTES / sizeof(T), as a literal for token pasting. */
#if defined(T_IS_U8) || (defined(T_IS_I32) && TILE_BYTES == 64) || (defined(T_IS_I16) && TILE_BYTES == 32)
#define COPY_TILE 16
#elif (defined(T_IS_I64) && TILE_BYTES == 64) || (defined(T_IS_I32) && TILE_BYTES == 32) || defined(T_IS_I16)
#define COPY_TILE 8
#elif (defined(T_IS_I64) && TILE_BYTES == 32) || defined(T_IS_I32)
#define COPY_TILE 4
#elif defined(T_IS_I64)
#define COPY_TILE 2
#endif
#endif

HP_KERNEL(transpose)(HP_GLOBAL T* to, HP_GLOBAL const T* from, copy_geometry g) {
  const hp_i64 width = g.size[0], height = g.size[1];
  const hp_i64 across = (width + BLOCK - 1) / BLOCK, down = (height + BLOCK - 1) / BLOCK;
  hp_i64 rest = hp_group;
  const hp_i64 i0 = rest % across * BLOCK;
  rest /= across;
  const hp_i64 j0 = rest % down * BLOCK;
  rest /= down;
  to += i0 + j0 * g.to[1];
  from += i0 * g.from[0] + j0;
  for (int d = 2; d < DIMS; ++d) {
    to += rest % g.size[d] * g.to[d];
    from += rest % g.size[d] * g.from[d];
    rest /= g.size[d];
  }
  const hp_i64 w = width - i0 < BLOCK ? width - i0 : BLOCK, h = height - j0 < BLOCK ? height - j0 : BLOCK;
#if HP_LSIZE == 1
  typedef T tile_row __attribute__((vector_size(COPY_TILE * sizeof(T))));
  typedef T tile_unaligned __attribute__((vector_size(COPY_TILE * sizeof(T)), aligned(sizeof(T)), may_alias));
  const hp_i64 whole_w = w / COPY_TILE * COPY_TILE, whole_h = h / COPY_TILE * COPY_TILE;
  for (hp_i64 i1 = 0; i1 < whole_w; i1 += COPY_TILE) {
    for (hp_i64 j1 = 0; j1 < whole_h; j1 += COPY_TILE) {
      tile_row row[COPY_TILE];
      for (int i = 0; i < COPY_TILE; ++i) row[i] = *(const tile_unaligned*)(from + (i1 + i) * g.from[0] + j1);
      TILE_STAGE(1)
#if COPY_TILE > 2
      TILE_STAGE(2)
#endif
#if COPY_TILE > 4
      TILE_STAGE(4)
#endif
#if COPY_TILE > 8
      TILE_STAGE(8)
#endif
      for (int j = 0; j < COPY_TILE; ++j) *(tile_unaligned*)(to + (j1 + j) * g.to[1] + i1) = row[j];
    }
  }
  for (hp_i64 j = 0; j < h; ++j) {
    for (hp_i64 i = j < whole_h ? whole_w : 0; i < w; ++i) to[j * g.to[1] + i] = from[i * g.from[0] + j];
  }
#else
  HP_LOCAL T tile[BLOCK][BLOCK + 1];
  HP_FOR_LOCAL(k, BLOCK * BLOCK) {
    const hp_i64 i = k / BLOCK, j = k % BLOCK;
    if (i < w && j < h) tile[i][j] = from[i * g.from[0] + j];
  }
  hp_barrier();
  HP_FOR_LOCAL(k, BLOCK * BLOCK) {
    const hp_i64 j = k / BLOCK, i = k % BLOCK;
    if (i < w && j < h) to[j * g.to[1] + i] = tile[i][j];
  }
#endif
}
