/* Differences between the dialects other than math.h: address spaces, work-item ids, 16-bit float storage. */
#if defined(__OPENCL_VERSION__)
#define HP_GLOBAL __global
#define HP_LOCAL __local
#define HP_VECTORIZE
#define HP_UNROLL
#define hp_lid ((hp_i64)get_local_id(0))
#define hp_group ((hp_i64)get_group_id(0))
#define hp_barrier() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#elif defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define HP_GLOBAL
#define HP_LOCAL __shared__
#define HP_VECTORIZE
#define HP_UNROLL _Pragma("unroll") /* keeps the arrays indexed in such loops in registers */
#define hp_lid ((hp_i64)threadIdx.x)
#define hp_group ((hp_i64)blockIdx.x)
#define hp_barrier() __syncthreads()
#else
#define HP_GLOBAL
#define HP_LOCAL
#define HP_VECTORIZE _Pragma("GCC ivdep")
#define HP_UNROLL
#define hp_lid ((hp_i64)0)
#define hp_barrier() ((void)0)
#endif

#define HP_INFINITY hp_from_bits_f32(0x7f800000u)

/* This work-group's range of `all` elements. */
#define HP_ELEMENT_RANGE(begin, end, all) \
  hp_i64 begin = hp_group * HP_ELEMENTS, end = begin + HP_ELEMENTS < (all) ? begin + HP_ELEMENTS : (all)
/* Loop over this work-item's elements. */
#define HP_FOR_ELEMENTS(i, all)                                                                      \
  for (hp_i64 i = hp_group * HP_ELEMENTS + hp_lid,                                                   \
              i##_end = (hp_group + 1) * HP_ELEMENTS < (all) ? (hp_group + 1) * HP_ELEMENTS : (all); \
       i < i##_end; i += HP_LSIZE)
/* Loop over 0 .. n-1, distributed over the work-items of the group. */
#define HP_FOR_LOCAL(i, n) for (hp_i64 i = hp_lid; i < (n); i += HP_LSIZE)

HP_FN float hp_load_bf16(hp_u16 bits) { return hp_from_bits_f32((hp_u32)bits << 16); }

/* Rounds to nearest, ties to even. NaN maps to the quiet NaN 0x7fc0. */
HP_FN hp_u16 hp_store_bf16(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  hp_u16 half;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
#else
  const hp_u32 bits = hp_bits_f32(value);
  const hp_u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (hp_u16)(value != value ? 0x7fc0u : rounded);
#endif
}

/* Keeps all bits of a NaN; hardware conversions do not. */
HP_FN float hp_widen_f16(hp_u16 bits) {
  /* Multiplying by 2^112 rebiases the exponent and normalizes denormals. */
  const hp_u32 sign = (hp_u32)(bits & 0x8000u) << 16, rest = (hp_u32)(bits & 0x7fffu) << 13;
  const float magnitude = hp_from_bits_f32(rest) * 5.192296858534828e33f; /* 2^112 */
  const hp_u32 special = rest >= 0x0f800000u ? 0x7f800000u | (rest & 0x007fffffu) : hp_bits_f32(magnitude);
  return hp_from_bits_f32(sign | special);
}

#ifdef __CUDA_ARCH__
HP_FN float hp_load_f16(hp_u16 bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
HP_FN hp_u16 hp_store_f16(float value) {
  hp_u16 half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
}
#else
HP_FN float hp_load_f16(hp_u16 bits) { return hp_widen_f16(bits); }

HP_FN hp_u16 hp_store_f16(float value) {
  const hp_u32 bits = hp_bits_f32(value), sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
  /* Denormal results: adding 0.5 leaves the rounded mantissa in the low bits. */
  const hp_u32 small = hp_bits_f32(hp_from_bits_f32(rest) + 0.5f) - 0x3f000000u;
  const hp_u32 normal = (rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1u)) >> 13;
  hp_u32 half = rest < 0x38800000u ? small : normal;
  half = rest >= 0x477ff000u ? 0x7c00u : half;
  half = rest > 0x7f800000u ? 0x7e00u : half;
  return (hp_u16)(sign | half);
}
#endif

/* nextafter for a 16-bit float: x moved one step toward y. Magnitudes of f16 and bf16 order like their bits. */
HP_FN hp_u16 hp_next16(hp_u16 x, hp_u16 y) {
  const hp_u16 sign = 0x8000u, rest = 0x7fffu;
  /* Sign-magnitude to signed integer, which compares like the float. The caller handles NaN. */
  const hp_i32 from = x & sign ? -(hp_i32)(x & rest) : (hp_i32)x, to = y & sign ? -(hp_i32)(y & rest) : (hp_i32)y;
  const hp_i32 next = from + (from < to) - (from > to);
  if (from == to) return y;
  return (hp_u16)(next < 0 || (next == 0 && (x & sign)) ? sign | (hp_u16)-next : next);
}

/* Bulk conversion of 16-bit floats, for groups of one work-item: kernels convert HP_STAGE elements at a time. Explicit
 * vectors, because compilers do not use the hardware conversions for a plain loop. */
#define HP_STAGE 256
#if !defined(__OPENCL_VERSION__) && !defined(__CUDACC__) && !defined(__CUDACC_RTC__)
#if defined(__AVX512F__)
#define HP_HALVES 16
typedef short hp_halves __attribute__((vector_size(32), aligned(2), may_alias));
typedef float hp_floats __attribute__((vector_size(64), aligned(4), may_alias));
#define HP_WIDEN(v) \
  (hp_floats) __builtin_ia32_vcvtph2ps512_mask(v, (hp_floats){0}, (unsigned short)-1, 4 /* current rounding mode */)
#define HP_NARROW(v) (hp_halves) __builtin_ia32_vcvtps2ph512_mask(v, 0, (hp_halves){0}, (unsigned short)-1)
#elif defined(__F16C__)
#define HP_HALVES 8
typedef short hp_halves __attribute__((vector_size(16), aligned(2), may_alias));
typedef float hp_floats __attribute__((vector_size(32), aligned(4), may_alias));
#define HP_WIDEN(v) (hp_floats) __builtin_ia32_vcvtph2ps256(v)
#define HP_NARROW(v) (hp_halves) __builtin_ia32_vcvtps2ph256(v, 0)
#endif

HP_FN void hp_load_run_f16(float* to, const hp_u16* from, hp_i64 n) {
  hp_i64 i = 0;
#ifdef HP_HALVES
  for (; i + HP_HALVES <= n; i += HP_HALVES) *(hp_floats*)(to + i) = HP_WIDEN(*(const hp_halves*)(from + i));
#endif
  for (; i < n; ++i) to[i] = hp_load_f16(from[i]);
}
HP_FN void hp_store_run_f16(hp_u16* to, const float* from, hp_i64 n) {
  hp_i64 i = 0;
#ifdef HP_HALVES
  for (; i + HP_HALVES <= n; i += HP_HALVES) *(hp_halves*)(to + i) = HP_NARROW(*(const hp_floats*)(from + i));
#endif
  for (; i < n; ++i) to[i] = hp_store_f16(from[i]);
}
#endif
