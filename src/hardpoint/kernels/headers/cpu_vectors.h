/* SIMD types and tile sizes for host kernels, where a group is one work-item. T: elements in memory. S: accumulator
 * type, unsigned for integers so that overflow wraps. */
#if defined(T_IS_F32) || defined(T_IS_F64)
#define T_IS_S 1
#endif
#if T_IS_FLOAT
typedef T_c S;
#elif defined(T_IS_I64)
typedef hp_u64 S;
#else
typedef hp_u32 S;
#endif

#if defined(HP_DIALECT_HOST) && HP_LSIZE == 1
#define HP_VECTORS 1
/* Vector code cannot call fma(): let the compiler fuse multiply-adds in this file. */
#if defined(__clang__)
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

#if defined(__AVX512F__)
#define VBYTES 64
#define TILE_ROWS 12
#elif defined(__AVX2__)
#define VBYTES 32
#define TILE_ROWS 4
#elif defined(__aarch64__)
#define VBYTES 16
#define TILE_ROWS 8
#else
#define VBYTES 16
#define TILE_ROWS 4
#endif
#define LANES ((int)(VBYTES / sizeof(S)))
#define TILE_COLUMNS (2 * LANES)

typedef S vs __attribute__((vector_size(VBYTES)));
typedef S vs_any __attribute__((vector_size(VBYTES), aligned(1), may_alias)); /* unaligned */
typedef T vt_any __attribute__((vector_size(VBYTES / sizeof(S) * sizeof(T)), aligned(1), may_alias));
typedef hp_u32 vu32 __attribute__((vector_size(VBYTES / sizeof(S) * 4)));

HP_FN vs load_sums(const S* from) { return *(const vs_any*)from; }
HP_FN void store_sums(S* to, vs value) { *(vs_any*)to = value; }

/* Loads LANES elements and converts them to S. */
HP_FN vs load_elements(const T* from) {
#if defined(T_IS_BF16)
  return (vs)(__builtin_convertvector(*(const vt_any*)from, vu32) << 16);
#elif defined(T_IS_F16)
  /* Same method as hp_widen_f16. */
  const vu32 bits = __builtin_convertvector(*(const vt_any*)from, vu32);
  const vu32 sign = (bits & 0x8000u) << 16, rest = (bits & 0x7fffu) << 13;
  const vu32 magnitude = (vu32)((vs)rest * 5.192296858534828e33f), special = (vu32)(rest >= 0x0f800000u);
  return (vs)(sign | (special & (0x7f800000u | (rest & 0x007fffffu))) | (~special & magnitude));
#else
  return __builtin_convertvector(*(const vt_any*)from, vs);
#endif
}

#if defined(__AVX512F__) && !defined(__clang__) && !defined(T_IS_F64) && !defined(T_IS_I64)
#define HP_TRANSPOSE 1
typedef hp_u32 vmask __attribute__((vector_size(64)));
/* Lane l of the new first and second vector of a pair that exchanges blocks of s lanes. */
#define FIRST(l, s) ((l) & (s) ? 16 + (l) - (s) : (l))
#define SECOND(l, s) ((l) & (s) ? 16 + (l) : (l) + (s))
#define ALL_LANES(f, s)                                                         \
  {f(0, s), f(1, s), f(2, s),  f(3, s),  f(4, s),  f(5, s),  f(6, s),  f(7, s), \
   f(8, s), f(9, s), f(10, s), f(11, s), f(12, s), f(13, s), f(14, s), f(15, s)}
#define EXCHANGE(v, s)                                                      \
  _Pragma("GCC unroll 16") for (int i = 0; i < 16; ++i) {                   \
    const vmask first = ALL_LANES(FIRST, s), second = ALL_LANES(SECOND, s); \
    if (i & (s)) continue;                                                  \
    const vs a = v[i], b = v[i + (s)];                                      \
    v[i] = __builtin_shuffle(a, b, first);                                  \
    v[i + (s)] = __builtin_shuffle(a, b, second);                           \
  }
HP_FN void transpose(vs v[16]) {
  EXCHANGE(v, 1);
  EXCHANGE(v, 2);
  EXCHANGE(v, 4);
  EXCHANGE(v, 8);
}
#endif

HP_FN S total(vs value) {
  S part[LANES];
  store_sums(part, value);
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) part[l] += part[l + half];
  return part[0];
}
#endif
