/* Functions of kernels translated from Triton, for the dialect "c": one thread runs a program. */
#define HP_ALIGNED __attribute__((aligned(64)))
#define HP_TILE
#define HP_RETURN goto next_program
#define HP_INCREMENT(x) ++(x)
/* A short loop over partial results. gcc would unroll it before it can vectorize it, with a branch for each element. */
#define HP_FOLD _Pragma("GCC unroll 1") _Pragma("GCC ivdep")

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
