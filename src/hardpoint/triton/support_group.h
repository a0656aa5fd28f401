/* Functions of kernels translated from Triton, for OpenCL C and CUDA C: the work-items of a group run a program. The
 * kernel defines HP_LSIZE, the size of a group. */
#if defined(__OPENCL_VERSION__)
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#define HP_TILE_LOCAL __local
#define HP_MULHI_32 mul_hi
#define HP_MULHI_64 mul_hi
#define HP_INCREMENT(x) atomic_inc((volatile hp_i32 HP_TILE*)&(x))
#define HP_CAS_32(at, old, next) atomic_cmpxchg((volatile __global hp_u32*)(at), old, next)
#define HP_CAS_64(at, old, next) atom_cmpxchg((volatile __global hp_u64*)(at), old, next)
#define hp_group_count ((hp_i64)get_num_groups(0))
#else
extern "C" __device__ int printf(const char*, ...);
#define HP_TILE_LOCAL
#define HP_MULHI_32 __umulhi
#define HP_MULHI_64 __umul64hi
#define HP_INCREMENT(x) atomicAdd(&(x), 1)
#define HP_CAS_32(at, old, next) atomicCAS((hp_u32*)(at), old, next)
#define HP_CAS_64(at, old, next) atomicCAS((hp_u64*)(at), old, next)
#define hp_group_count ((hp_i64)gridDim.x)
#endif
#define hp_printf printf

/* Keeps the first failure: see headers/fault.h. A limit of -1 says that the index is a line of the program. */
#define HP_ASSERT_FAILED(line, ...) \
  {                                 \
    if (fault[0] == 0) {            \
      fault[1] = (line);            \
      fault[2] = -1;                \
      fault[0] = code;              \
      printf(__VA_ARGS__);          \
    }                               \
  }

/* ---- integers ---- */
HP_FN hp_u32 hp_mulhi_u32(hp_u32 a, hp_u32 b) { return HP_MULHI_32(a, b); }
HP_FN hp_u64 hp_mulhi_u64(hp_u64 a, hp_u64 b) { return HP_MULHI_64(a, b); }

/* ---- atomics ---- */
/* Sets a word of 8 to 64 bits to `next` if it is `old`; returns what it was. Narrow words are part of a wider one. */
HP_FN hp_u64 hp_cas_hp_u64(HP_GLOBAL hp_u64* at, hp_u64 old, hp_u64 next) { return HP_CAS_64(at, old, next); }
HP_FN hp_u32 hp_cas_hp_u32(HP_GLOBAL hp_u32* at, hp_u32 old, hp_u32 next) { return HP_CAS_32(at, old, next); }
HP_FN hp_u32 hp_cas_part(hp_u64 address, hp_u32 mask, hp_u32 old, hp_u32 next) {
  HP_GLOBAL hp_u32* const word = (HP_GLOBAL hp_u32*)(address & ~(hp_u64)3);
  const hp_u32 shift = (hp_u32)(address & 3) * 8;
  hp_u32 seen = *(volatile HP_GLOBAL hp_u32*)word;
  for (;;) {
    if ((seen >> shift & mask) != old) return seen >> shift & mask;
    const hp_u32 before = HP_CAS_32(word, seen, (seen & ~(mask << shift)) | next << shift);
    if (before == seen) return old;
    seen = before;
  }
}
HP_FN hp_u16 hp_cas_hp_u16(HP_GLOBAL hp_u16* at, hp_u16 old, hp_u16 next) {
  return (hp_u16)hp_cas_part((hp_u64)at, 0xffffu, old, next);
}
HP_FN hp_u8 hp_cas_hp_u8(HP_GLOBAL hp_u8* at, hp_u8 old, hp_u8 next) {
  return (hp_u8)hp_cas_part((hp_u64)at, 0xffu, old, next);
}

/* Replaces what `pointer` holds: W, the unsigned type of its width; M, its type in memory; OLD, the old value from
 * `raw`; NEW, the new one from `old`. */
#define HP_ATOMIC_UPDATE(W, M, pointer, old, OLD, NEW) \
  {                                                    \
    HP_GLOBAL W* const word = (HP_GLOBAL W*)(pointer); \
    union {                                            \
      W bits;                                          \
      M value;                                         \
    } change;                                          \
    W seen = *(volatile HP_GLOBAL W*)word, before;     \
    for (;;) {                                         \
      change.bits = seen;                              \
      M raw = change.value;                            \
      old = OLD;                                       \
      change.value = NEW;                              \
      before = hp_cas_##W(word, seen, change.bits);    \
      if (before == seen) break;                       \
      seen = before;                                   \
    }                                                  \
  }
#define HP_ATOMIC_EXCHANGE(W, M, pointer, seen, given)                               \
  {                                                                                  \
    union {                                                                          \
      W bits;                                                                        \
      M value;                                                                       \
    } expected, wanted;                                                              \
    expected.value = seen;                                                           \
    wanted.value = given;                                                            \
    expected.bits = hp_cas_##W((HP_GLOBAL W*)(pointer), expected.bits, wanted.bits); \
    seen = expected.value;                                                           \
  }

/* ---- dot ---- */
/* C += A B for row-major tiles: each work-item computes every n-th element. */
#define HP_DOT(T, M, N, K, A, B, C)                                            \
  for (hp_i32 first = 0; first < (M) * (N); first += HP_LSIZE) {               \
    const hp_i32 element = first + lid, i = element / (N), j = element % (N);  \
    if ((M) * (N) % HP_LSIZE == 0 || element < (M) * (N)) {                    \
      T sum = C[element];                                                      \
      for (hp_i32 k = 0; k < (K); ++k) sum += A[i * (K) + k] * B[k * (N) + j]; \
      C[element] = sum;                                                        \
    }                                                                          \
  }
