/* What kernels translated from Triton use, beside math.h and dialect.h. */
#define HP_ALIGNED __attribute__((aligned(64)))

/* ---- memory for tiles that are too large for the stack ---- */
void* malloc(unsigned long);
void free(void*);
int printf(const char*, ...);
int fprintf(void*, const char*, ...);
int fflush(void*);
#define hp_printf printf
#define HP_WORKSPACE(bytes)                                   \
  char* const workspace_memory = (char*)malloc((bytes) + 64); \
  if (!workspace_memory) __builtin_trap();                    \
  char* const workspace = workspace_memory + 64 - (hp_u64)workspace_memory % 64;
#define HP_WORKSPACE_END free(workspace_memory);

/* Keeps the first failure: see headers/fault.h. A limit of -1 says that the index is a line of the program. */
#define HP_ASSERT_FAILED(line, ...) \
  {                                 \
    if (fault[0] == 0) {            \
      fault[1] = (line);            \
      fault[2] = -1;                \
      fault[0] = code;              \
      printf(__VA_ARGS__);          \
      fflush(0);                    \
    }                               \
  }

/* ---- integers ---- */
HP_FN hp_u32 hp_mulhi_u32(hp_u32 a, hp_u32 b) { return (hp_u32)(((hp_u64)a * b) >> 32); }
HP_FN hp_u64 hp_mulhi_u64(hp_u64 a, hp_u64 b) { return (hp_u64)(((unsigned __int128)a * b) >> 64); }

/* ---- functions of libdevice that math.h lacks ---- */
#define HP_LIBDEVICE(S, T)                                                                      \
  HP_FN T hp_cbrt_##S(T x) { return HP_LIB_##S(cbrt)(x); }                                      \
  HP_FN T hp_exp10_##S(T x) { return HP_LIB_##S(exp10)(x); }                                    \
  HP_FN T hp_tgamma_##S(T x) { return HP_LIB_##S(tgamma)(x); }                                  \
  HP_FN T hp_round_away_##S(T x) { return HP_LIB_##S(round)(x); }                               \
  HP_FN T hp_fdim_##S(T x, T y) { return HP_LIB_##S(fdim)(x, y); }                              \
  HP_FN T hp_add_rn_##S(T x, T y) { return x + y; }                                             \
  HP_FN T hp_sub_rn_##S(T x, T y) { return x - y; }                                             \
  /* As a sum that cannot change it, so that no addition after it is fused with the product. */ \
  HP_FN T hp_mul_rn_##S(T x, T y) { return HP_LIB_##S(fma)(x, y, (T) - 0.0); }                  \
  HP_FN T hp_div_rn_##S(T x, T y) { return x / y; }                                             \
  HP_FN T hp_ldexp_int_##S(T x, hp_i32 n) { return HP_LIB_##S(ldexp)(x, n); }                   \
  HP_FN hp_i32 hp_ilogb_##S(T x) { return HP_LIB_##S(ilogb)(x); }                               \
  HP_FN hp_i64 hp_llrint_##S(T x) { return HP_LIB_##S(llrint)(x); }
HP_LIBDEVICE(f32, float)
HP_LIBDEVICE(f64, double)

/* ---- narrow floats ---- */
/* Rounds toward zero. */
HP_FN hp_u16 hp_truncate_bf16(float x) { return (hp_u16)(x != x ? 0x7fc0u : hp_bits_f32(x) >> 16); }
HP_FN hp_u16 hp_truncate_f16(float x) {
  const hp_u16 nearest = hp_store_f16(x);
  const float back = hp_load_f16(nearest), size = back < 0 ? -back : back, wanted = x < 0 ? -x : x;
  return (hp_u16)(size > wanted && wanted < HP_INF_f32 ? nearest - 1u : nearest);
}

/* e5m2 is the upper half of f16. */
HP_FN float hp_load_f8E5M2(hp_u8 bits) { return hp_load_f16((hp_u16)((hp_u32)bits << 8)); }
/* Rounds to nearest, ties to even, in f32: through f16 it would round twice. Overflow, infinity included, gives the
 * largest value, as Triton on NVIDIA does. */
HP_FN hp_u8 hp_store_f8E5M2(float x) {
  const hp_u32 bits = hp_bits_f32(x), sign = (bits >> 24) & 0x80u, rest = bits & 0x7fffffffu;
  const hp_u32 small = hp_bits_f32(hp_from_bits_f32(rest) + 128.0f) - 0x43000000u; /* multiples of 2^-16 */
  const hp_u32 normal = (rest - 0x38000000u + 0xfffffu + ((rest >> 21) & 1u)) >> 21;
  hp_u32 byte = rest < 0x38800000u ? small : normal;
  byte = byte > 0x7bu ? 0x7bu : byte;
  return (hp_u8)(sign | (rest > 0x7f800000u ? 0x7fu : byte));
}
HP_FN float hp_load_f8E4M3FN(hp_u8 bits) {
  const hp_u32 rest = (hp_u32)(bits & 0x7fu) << 20, sign = (hp_u32)(bits & 0x80u) << 24;
  const float size = hp_from_bits_f32(rest) * 1.329227995784916e36f; /* 2^120 */
  return hp_from_bits_f32(sign | ((bits & 0x7fu) == 0x7fu ? 0x7fc00000u : hp_bits_f32(size)));
}
/* Overflow gives the largest value, 448, as Triton on NVIDIA does. */
HP_FN hp_u8 hp_store_f8E4M3FN(float x) {
  const hp_u32 bits = hp_bits_f32(x), sign = (bits >> 24) & 0x80u, rest = bits & 0x7fffffffu;
  const hp_u32 small = hp_bits_f32(hp_from_bits_f32(rest) + 16384.0f) - 0x46800000u; /* multiples of 2^-9 */
  const hp_u32 normal = (rest - 0x3c000000u + 0x7ffffu + ((rest >> 20) & 1u)) >> 20;
  hp_u32 byte = rest < 0x3c800000u ? small : normal;
  byte = byte > 0x7eu ? 0x7eu : byte;
  return (hp_u8)(sign | (rest > 0x7f800000u ? 0x7fu : byte));
}

/* Microscaled formats: four bits with two of exponent, and scales that are powers of two. */
HP_FN float hp_load_e2m1(hp_u32 bits) {
  const hp_u32 exponent = bits >> 1 & 3u, digit = bits & 1u;
  const float size = exponent ? (float)((2u + digit) << exponent) * 0.25f : (float)digit * 0.5f;
  return bits & 8u ? -size : size;
}
HP_FN float hp_load_e8m0(hp_u8 bits) {
  return hp_from_bits_f32(bits == 255 ? 0x7fc00000u : bits == 0 ? 0x00400000u : (hp_u32)bits << 23);
}

/* ---- atomics ---- */
/* Replaces what `pointer` holds: W, the unsigned type of its width; M, its type in memory; OLD, the old value from
 * `raw`; NEW, the new one from `old`. */
#define HP_ATOMIC_UPDATE(W, M, pointer, old, OLD, NEW)                                                \
  {                                                                                                   \
    W* const word = (W*)(pointer);                                                                    \
    W seen = __atomic_load_n(word, __ATOMIC_RELAXED), next;                                           \
    do {                                                                                              \
      M raw;                                                                                          \
      __builtin_memcpy(&raw, &seen, sizeof raw);                                                      \
      old = OLD;                                                                                      \
      raw = NEW;                                                                                      \
      __builtin_memcpy(&next, &raw, sizeof raw);                                                      \
    } while (!__atomic_compare_exchange_n(word, &seen, next, 1, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)); \
  }
#define HP_ATOMIC_EXCHANGE(W, M, pointer, seen, given)                                                    \
  {                                                                                                       \
    W expected, wanted;                                                                                   \
    __builtin_memcpy(&expected, &seen, sizeof expected);                                                  \
    __builtin_memcpy(&wanted, &given, sizeof wanted);                                                     \
    __atomic_compare_exchange_n((W*)(pointer), &expected, wanted, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE); \
    __builtin_memcpy(&seen, &expected, sizeof expected);                                                  \
  }

/* ---- dot ---- */
/* C += A B for row-major tiles. HP_DOT_ROWS rows by two vectors stay in registers while k runs. */
#ifdef __AVX512F__
#define HP_DOT_BYTES 64
#define HP_DOT_ROWS 8
#else
#define HP_DOT_BYTES 32
#define HP_DOT_ROWS 4
#endif
#define HP_DOT(T, M, N, K, A, B, C)                                                                               \
  {                                                                                                               \
    enum {                                                                                                        \
      W0 = HP_DOT_BYTES / sizeof(T),                                                                              \
      W = (N) % W0 ? 1 : W0,                                                                                      \
      P = (N) % (2 * W) ? 1 : 2,                                                                                  \
      R = (M) % HP_DOT_ROWS ? 1 : HP_DOT_ROWS                                                                     \
    };                                                                                                            \
    typedef T V __attribute__((vector_size(W * sizeof(T)), aligned(sizeof(T)), may_alias));                       \
    for (hp_i32 i = 0; i < (M); i += R)                                                                           \
      for (hp_i32 j = 0; j < (N); j += W * P) {                                                                   \
        V sum[R][P];                                                                                              \
        _Pragma("GCC unroll 8") for (int r = 0; r < R; ++r) _Pragma("GCC unroll 2") for (int p = 0; p < P; ++p)   \
            sum[r][p] = *(V*)&C[(i + r) * (N) + j + p * W];                                                       \
        for (hp_i32 k = 0; k < (K); ++k) _Pragma("GCC unroll 2") for (int p = 0; p < P; ++p) {                    \
            const V b = *(const V*)&B[k * (N) + j + p * W];                                                       \
            _Pragma("GCC unroll 8") for (int r = 0; r < R; ++r) sum[r][p] += A[(i + r) * (K) + k] * b;            \
          }                                                                                                       \
        _Pragma("GCC unroll 8") for (int r = 0; r < R; ++r) _Pragma("GCC unroll 2") for (int p = 0; p < P; ++p) * \
            (V*)&C[(i + r) * (N) + j + p * W] = sum[r][p];                                                        \
      }                                                                                                           \
  }
