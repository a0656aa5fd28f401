/* Scalar functions for portable kernels: hp_<name>_f32 and hp_<name>_f64, with the semantics of torch's CPU operators.
 *
 * One source for three dialects (OpenCL C, CUDA C, host C11/GNU C), without system headers. This file contains the
 * dialect layer, the functions that use a different method in each precision, and integer functions. math_template.h,
 * included once per real type, contains functions that read the same in both precisions. math_special.h (gamma, Bessel,
 * Airy, zeta, orthogonal polynomials, ...) is included after this file where needed.
 *
 * Without double support (OpenCL without cl_khr_fp64, or HP_NO_F64 defined) there are no _f64 functions. Never pass
 * this directory with -I to a compiler that also needs the system's <math.h>: include this file by its path. */
#ifndef HARDPOINT_KERNELS_MATH_H
#define HARDPOINT_KERNELS_MATH_H

/* ---- dialect ---------------------------------------------------------------------------------------------------- */
/* HP_LIB_f32(exp)(x) and HP_LIB_f64(exp)(x) call the dialect's built-in function. */

#if defined(__OPENCL_VERSION__)
#define HP_DIALECT_OPENCL 1
#if !defined(cl_khr_fp64) && !defined(HP_NO_F64)
#define HP_NO_F64 1
#endif
#ifndef HP_NO_F64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
/* Only explicit fma() is fused, so results match those of other devices. */
#pragma OPENCL FP_CONTRACT OFF
/* Keywords of OpenCL C that kernels use as names. The spellings with underscores (__kernel, __global) still work. */
#define half hp_word_half
#define kernel hp_word_kernel
#define global hp_word_global
#define local hp_word_local
#define constant hp_word_constant
#define HP_FN static inline __attribute__((unused))
#define HP_LIB_f32(name) name
#define HP_LIB_f64(name) name
typedef char hp_i8;
typedef uchar hp_u8;
typedef short hp_i16;
typedef ushort hp_u16;
typedef int hp_i32;
typedef uint hp_u32;
typedef long hp_i64;
typedef ulong hp_u64;
HP_FN hp_u32 hp_bits_f32(float x) { return as_uint(x); }
HP_FN float hp_from_bits_f32(hp_u32 x) { return as_float(x); }
#ifndef HP_NO_F64
HP_FN hp_u64 hp_bits_f64(double x) { return as_ulong(x); }
HP_FN double hp_from_bits_f64(hp_u64 x) { return as_double(x); }
#endif

#elif defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define HP_DIALECT_CUDA 1
#define HP_FN static __device__ __forceinline__
#define HP_LIB_f32(name) name##f
#define HP_LIB_f64(name) name
typedef signed char hp_i8;
typedef unsigned char hp_u8;
typedef short hp_i16;
typedef unsigned short hp_u16;
typedef int hp_i32;
typedef unsigned int hp_u32;
typedef long long hp_i64;
typedef unsigned long long hp_u64;
HP_FN hp_u32 hp_bits_f32(float x) { return __float_as_uint(x); }
HP_FN float hp_from_bits_f32(hp_u32 x) { return __uint_as_float(x); }
HP_FN hp_u64 hp_bits_f64(double x) { return (hp_u64)__double_as_longlong(x); }
HP_FN double hp_from_bits_f64(hp_u64 x) { return __longlong_as_double((hp_i64)x); }

#else
#define HP_DIALECT_HOST 1
#define HP_FN static inline __attribute__((always_inline, unused))
#define HP_LIB_f32(name) __builtin_##name##f
#define HP_LIB_f64(name) __builtin_##name
typedef signed char hp_i8;
typedef unsigned char hp_u8;
typedef short hp_i16;
typedef unsigned short hp_u16;
typedef int hp_i32;
typedef unsigned int hp_u32;
typedef long long hp_i64;
typedef unsigned long long hp_u64;
HP_FN hp_u32 hp_bits_f32(float x) {
  union {
    float f;
    hp_u32 u;
  } v;
  v.f = x;
  return v.u;
}
HP_FN float hp_from_bits_f32(hp_u32 x) {
  union {
    float f;
    hp_u32 u;
  } v;
  v.u = x;
  return v.f;
}
HP_FN hp_u64 hp_bits_f64(double x) {
  union {
    double f;
    hp_u64 u;
  } v;
  v.f = x;
  return v.u;
}
HP_FN double hp_from_bits_f64(hp_u64 x) {
  union {
    double f;
    hp_u64 u;
  } v;
  v.u = x;
  return v.f;
}
#endif

typedef float hp_f32;
#define HP_INF_f32 hp_from_bits_f32(0x7f800000u)
#define HP_NAN_f32 hp_from_bits_f32(0x7fc00000u)

HP_FN float hp_fma_f32(float a, float b, float c) { return HP_LIB_f32(fma)(a, b, c); }

/* c ? a : b with both sides evaluated. OpenCL compilers turn ?: into a branch, which prevents vectorization. */
HP_FN float hp_select_f32(int c, float a, float b) {
#ifdef HP_DIALECT_OPENCL
  hp_u32 m = (hp_u32)(-c);
  return hp_from_bits_f32((hp_bits_f32(a) & m) | (hp_bits_f32(b) & ~m));
#else
  return c ? a : b;
#endif
}

#ifndef HP_NO_F64
typedef double hp_f64;
#define HP_INF_f64 hp_from_bits_f64((hp_u64)0x7ff00000u << 32)
#define HP_NAN_f64 hp_from_bits_f64((hp_u64)0x7ff80000u << 32)
HP_FN double hp_fma_f64(double a, double b, double c) { return HP_LIB_f64(fma)(a, b, c); }
HP_FN double hp_select_f64(int c, double a, double b) { return c ? a : b; }
#endif

/* A 64-bit floating-point argument from the host. Without double support its bits are converted to float. */
#ifdef HP_NO_F64
typedef hp_u64 hp_number;
HP_FN float hp_number_value(hp_u64 bits) {
  const hp_u64 rest = bits & 0xfffffffffffffUL;
  const hp_i32 exponent = (hp_i32)(bits >> 52 & 2047u);
  const float size = exponent == 2047 ? (rest ? HP_NAN_f32 : HP_INF_f32)
                     : exponent == 0  ? 0.0f
                                      : HP_LIB_f32(ldexp)((float)(rest | 0x10000000000000UL), exponent - 1075);
  return bits >> 63 ? -size : size;
}
#else
typedef double hp_number;
HP_FN double hp_number_value(double number) { return number; }
#endif

/* ---- float: branch-free, so that loops over arrays vectorize ----------------------------------------------------- */

/* e ln(2) + log(1 + f), |f| <= 1/3 */
HP_FN float hp_log_sum_f32(float e, float f) {
  float p = -1.289182007e-01f, s = f * f;
  p = hp_fma_f32(p, f, 1.398457289e-01f);
  p = hp_fma_f32(p, f, -1.218423322e-01f);
  p = hp_fma_f32(p, f, 1.400584430e-01f);
  p = hp_fma_f32(p, f, -1.668048948e-01f);
  p = hp_fma_f32(p, f, 2.001040727e-01f);
  p = hp_fma_f32(p, f, -2.499979734e-01f);
  p = hp_fma_f32(p, f, 3.333321512e-01f);
  p = hp_fma_f32(s * f, p, -0.5f * s);
  return hp_fma_f32(e, 6.931471825e-1f, f + hp_fma_f32(e, -1.904654323e-9f, p));
}

/* log(x) of a normal number: x = 2^e m with m in [2/3, 4/3) */
HP_FN float hp_log_normal_f32(float x) {
  const hp_i32 i = (hp_i32)hp_bits_f32(x) - 0x3f2aaaab;
  return hp_log_sum_f32((float)(i >> 23), hp_from_bits_f32((hp_u32)((i & 0x7fffff) + 0x3f2aaaab)) - 1.0f);
}

#ifdef HP_DIALECT_CUDA
HP_FN float hp_exp_f32(float x) { return expf(x); }
HP_FN float hp_exp2_f32(float x) { return exp2f(x); }
HP_FN float hp_expm1_f32(float x) { return expm1f(x); }
HP_FN float hp_log_f32(float x) { return logf(x); }
HP_FN float hp_log1p_f32(float x) { return log1pf(x); }
HP_FN float hp_sin_f32(float x) { return sinf(x); }
HP_FN float hp_cos_f32(float x) { return cosf(x); }
HP_FN float hp_tanh_f32(float x) { return tanhf(x); }
HP_FN float hp_erf_f32(float x) { return erff(x); }
#else

/* e^r for |r| <= ln(2)/2 */
HP_FN float hp_exp_poly_f32(float r) {
  float p = 1.381443348e-3f;
  p = hp_fma_f32(p, r, 8.368796669e-3f);
  p = hp_fma_f32(p, r, 4.166839644e-2f);
  p = hp_fma_f32(p, r, 1.666651964e-1f);
  p = hp_fma_f32(p, r, 4.999999404e-1f);
  p = hp_fma_f32(p, r, 1.0f);
  return hp_fma_f32(p, r, 1.0f);
}

/* p * 2^(z - 1.5 * 2^23), where z is the rounded exponent biased by 1.5 * 2^23. Scales in two factors, because the
 * exponent may exceed the normal range on either side. */
HP_FN float hp_scale_biased_f32(float p, float z) {
  hp_i32 n = (hp_i32)hp_bits_f32(z) - 0x4b400000, h = n >> 1;
  return p * hp_from_bits_f32((hp_u32)(h + 127) << 23) * hp_from_bits_f32((hp_u32)(n - h + 127) << 23);
}

HP_FN float hp_exp_f32(float x) {
  float y = hp_select_f32(x > 88.8f, 88.8f, x);
  y = hp_select_f32(y < -104.0f, -104.0f, y);
  float z = hp_fma_f32(y, 1.44269504f, 12582912.0f), n = z - 12582912.0f;
  float r = hp_fma_f32(n, -6.931471825e-1f, y);
  r = hp_fma_f32(n, 1.904654323e-9f, r);
  return hp_scale_biased_f32(hp_exp_poly_f32(r), z);
}

HP_FN float hp_exp2_f32(float x) {
  float y = hp_select_f32(x > 128.1f, 128.1f, x);
  y = hp_select_f32(y < -150.1f, -150.1f, y);
  float z = y + 12582912.0f, f = y - (z - 12582912.0f);
  return hp_scale_biased_f32(hp_exp_poly_f32(f * 6.931471825e-1f), z);
}

/* 2^n (e^r - 1) + (2^n - 1), computed at half scale because 2^128 is not a float. */
HP_FN float hp_expm1_f32(float x) {
  float y = hp_select_f32(x > 88.8f, 88.8f, x);
  y = hp_select_f32(y < -30.0f, -30.0f, y);
  float z = hp_fma_f32(y, 1.44269504f, 12582912.0f), n = z - 12582912.0f;
  float r = hp_fma_f32(n, -6.931471825e-1f, y);
  r = hp_fma_f32(n, 1.904654323e-9f, r);
  float p = 1.984588744e-4f;
  p = hp_fma_f32(p, r, 1.394074410e-3f);
  p = hp_fma_f32(p, r, 8.333389647e-3f);
  p = hp_fma_f32(p, r, 4.166635871e-2f);
  p = hp_fma_f32(p, r, 1.666666567e-1f);
  p = hp_fma_f32(p, r, 5.0e-1f);
  p = hp_fma_f32(p, r * r, r);
  float s = hp_from_bits_f32((hp_bits_f32(z) - 0x4b400000u + 126u) << 23);
  float v = 2.0f * hp_fma_f32(s, p, s - 0.5f);
  return hp_select_f32(HP_LIB_f32(fabs)(x) < 5.9e-8f, x, v);
}

/* x = 2^e m with m in [2/3, 4/3) */
HP_FN float hp_log_f32(float x) {
  int tiny = x < 1.17549435e-38f;
  hp_i32 i = (hp_i32)hp_bits_f32(hp_select_f32(tiny, x * 8388608.0f, x)) - 0x3f2aaaab;
  float e = (float)(i >> 23) - hp_select_f32(tiny, 23.0f, 0.0f);
  float f = hp_from_bits_f32((hp_u32)((i & 0x7fffff) + 0x3f2aaaab)) - 1.0f;
  float r = hp_log_sum_f32(e, f);
  r = hp_select_f32(x < HP_INF_f32, r, x);
  r = hp_select_f32(x == 0.0f, -HP_INF_f32, r);
  return hp_select_f32(x < 0.0f, HP_NAN_f32, r);
}

/* 1 + x = 2^e (1 + f), with f computed from x itself so that a small x keeps its digits. */
HP_FN float hp_log1p_f32(float x) {
  hp_i32 i = (hp_i32)hp_bits_f32(1.0f + x) - 0x3f2aaaab, e = i >> 23,
         h = e >> 1; /* 2^-e in two factors: e may be 128 */
  float s = hp_from_bits_f32((hp_u32)(127 - h) << 23), t = hp_from_bits_f32((hp_u32)(127 - e + h) << 23);
  float r = hp_log_sum_f32((float)e, hp_fma_f32(x * s, t, hp_fma_f32(s, t, -1.0f)));
  r = hp_select_f32(x < HP_INF_f32, r, x);
  r = hp_select_f32(x == -1.0f, -HP_INF_f32, r);
  r = hp_select_f32(x < -1.0f, HP_NAN_f32, r);
  return hp_select_f32(x == 0.0f, x, r);
}

HP_FN float hp_tanh_f32(float x) {
  float a = HP_LIB_f32(fabs)(x), t = hp_expm1_f32(-2.0f * a);
  return HP_LIB_f32(copysign)(-t / (2.0f + t), x);
}

/* x P(x^2) for |x| <= 1, then 1 - Q(|x|)^-8, which rounds to 1 from 3.95 on. */
HP_FN float hp_erf_f32(float x) {
  float a = HP_LIB_f32(fabs)(x), z = x * x;
  float p = 7.820643805e-5f;
  p = hp_fma_f32(p, z, -8.000914822e-4f);
  p = hp_fma_f32(p, z, 5.187361501e-3f);
  p = hp_fma_f32(p, z, -2.685335092e-2f);
  p = hp_fma_f32(p, z, 1.128357500e-1f);
  p = hp_fma_f32(p, z, -3.761262596e-1f);
  p = hp_fma_f32(p, z, 1.283791661e-1f);
  p = hp_fma_f32(p, a, a);
  float c = hp_select_f32(a > 3.95f, 3.95f, a), q = 5.444472190e-4f;
  q = hp_fma_f32(q, c, -4.010699689e-3f);
  q = hp_fma_f32(q, c, 1.778936014e-2f);
  q = hp_fma_f32(q, c, -3.312419355e-2f);
  q = hp_fma_f32(q, c, 7.386493683e-2f);
  q = hp_fma_f32(q, c, 4.931623489e-2f);
  q = hp_fma_f32(q, c, 1.592513621e-1f);
  q = hp_fma_f32(q, c, 9.964806437e-1f);
  q *= q;
  q *= q;
  q *= q;
  return HP_LIB_f32(copysign)(hp_select_f32(a > 1.0f, 1.0f - 1.0f / q, p), x);
}

/* sin(|x| + shift pi/2). Below 1e5, Cody-Waite reduction: the multiple of pi/2 is subtracted in three steps, leaving
 * about 1 ulp of error. Above, Payne-Hanek reduction: |x| = m 2^k times a 64-bit window of 2/pi (bits w0, w1, ... for
 * the smallest k) gives the angle in fixed point, with an absolute error of 1e-8. */
HP_FN float hp_sin_quadrant_f32(float x, hp_u32 shift) {
  float a = HP_LIB_f32(fabs)(x);
  float z = hp_fma_f32(a, 6.366197467e-1f, 12582912.0f), n = z - 12582912.0f;
  float r = hp_fma_f32(n, -1.570796371f, a);
  r = hp_fma_f32(n, 4.371138829e-8f, r);
  r = hp_fma_f32(n, 1.716291970e-15f, r);

  hp_u32 b = hp_bits_f32(a), m = (b & 0x7fffffu) | 0x800000u, pos = (b >> 23) - 136u, d = pos & 31u;
  hp_u32 by2 = 0u - ((pos >> 6) & 1u), by1 = 0u - ((pos >> 5) & 1u);
  hp_u32 w0 = 0x0000a2f9u ^ (by2 & (0x0000a2f9u ^ 0x1529fc27u)), w1 = 0x836e4e44u ^ (by2 & (0x836e4e44u ^ 0x57d1f534u));
  hp_u32 w2 = 0x1529fc27u ^ (by2 & (0x1529fc27u ^ 0xddc0db62u)), w3 = 0x57d1f534u ^ (by2 & (0x57d1f534u ^ 0x95993c43u));
  w0 ^= by1 & (w0 ^ w1);
  w1 ^= by1 & (w1 ^ w2);
  w2 ^= by1 & (w2 ^ w3);
  hp_u32 hi = (w0 << d) | ((w1 >> 1) >> (31u - d)), lo = (w1 << d) | ((w2 >> 1) >> (31u - d));
  hp_u32 phase = m * hi + (hp_u32)(hp_i32)((float)(hp_i32)m * (float)(hp_i32)(lo >> 8) * 5.96046448e-8f);
  hp_u32 turn = (phase + 0x20000000u) >> 30;
  float far = (float)(hp_i32)(phase - (turn << 30)) * 1.462918079e-9f;

  int is_far = a >= 1.0e5f && a < HP_INF_f32; /* for infinity, the near reduction yields NaN */
  r = hp_select_f32(is_far, far, r);
  hp_u32 q = (is_far ? turn : hp_bits_f32(z)) + shift;

  float s = r * r;
  float u = hp_fma_f32(2.718025826e-6f, s, -1.983930269e-4f);
  u = hp_fma_f32(u, s, 8.333329111e-3f);
  u = hp_fma_f32(u, s, -1.666666716e-1f);
  u = hp_fma_f32(u * s, r, r);
  float v = hp_fma_f32(2.443220728e-5f, s, -1.388730831e-3f);
  v = hp_fma_f32(v, s, 4.166664556e-2f);
  v = hp_fma_f32(v, s, -0.5f);
  v = hp_fma_f32(v, s, 1.0f);
  return hp_from_bits_f32(hp_bits_f32(hp_select_f32((int)(q & 1u), v, u)) ^ ((q & 2u) << 30));
}
HP_FN float hp_sin_f32(float x) {
  return hp_from_bits_f32(hp_bits_f32(hp_sin_quadrant_f32(x, 0u)) ^ (hp_bits_f32(x) & 0x80000000u));
}
HP_FN float hp_cos_f32(float x) { return hp_sin_quadrant_f32(x, 1u); }
#endif

/* ---- double: the dialect's library ------------------------------------------------------------------------------- */

#ifndef HP_NO_F64
HP_FN double hp_exp_f64(double x) { return HP_LIB_f64(exp)(x); }
HP_FN double hp_exp2_f64(double x) { return HP_LIB_f64(exp2)(x); }
HP_FN double hp_expm1_f64(double x) { return HP_LIB_f64(expm1)(x); }
HP_FN double hp_log_f64(double x) { return HP_LIB_f64(log)(x); }
HP_FN double hp_log1p_f64(double x) { return HP_LIB_f64(log1p)(x); }
HP_FN double hp_sin_f64(double x) { return HP_LIB_f64(sin)(x); }
HP_FN double hp_cos_f64(double x) { return HP_LIB_f64(cos)(x); }
HP_FN double hp_tanh_f64(double x) { return HP_LIB_f64(tanh)(x); }
HP_FN double hp_erf_f64(double x) { return HP_LIB_f64(erf)(x); }
#endif

/* ---- both precisions --------------------------------------------------------------------------------------------- */
/* Headers included once per real type see HP_REAL (f32 or f64). Derived from it: the type HP_T, a function HP_F(name),
 * the dialect's built-in HP_LIB(name), a literal HP_K(0.5), and HP_IS_F64 (0 or 1). */

#define HP_JOIN_(a, b) a##b
#define HP_JOIN(a, b) HP_JOIN_(a, b)
#define HP_T HP_JOIN(hp_, HP_REAL)
#define HP_F(name) HP_JOIN(hp_##name##_, HP_REAL)
#define HP_LIB(name) HP_JOIN(HP_LIB_, HP_REAL)(name)
#define HP_K(x) HP_JOIN(HP_K_, HP_REAL)(x)
#define HP_K_f32(x) x##f
#define HP_K_f64(x) x
#define HP_INF HP_JOIN(HP_INF_, HP_REAL)
#define HP_NAN HP_JOIN(HP_NAN_, HP_REAL)
#define HP_IS_F64 (sizeof(HP_T) == 8)

#define HP_REAL f32
#include "math_template.h"
#undef HP_REAL
#ifndef HP_NO_F64
#define HP_REAL f64
#include "math_template.h"
#undef HP_REAL
#endif

/* ---- integers ---------------------------------------------------------------------------------------------------- */
/* Overflow wraps: arithmetic uses U, the unsigned type of at least 32 bits. Division by zero gives 0 (torch raises
 * earlier). Division by -1 is a special case, because dividing the smallest integer by -1 traps. A shift count outside
 * the width shifts out all bits. */

/* A function, because comparing an unsigned value with < 0 directly draws a compiler warning. */
HP_FN int hp_negative(hp_i64 a) { return a < 0; }

#define HP_DEFINE_INTEGER(S, T, U, BITS)                                                                           \
  HP_FN T hp_trunc_divide_##S(T a, T b) {                                                                          \
    return b == 0 ? (T)0 : b == (T)(-1) && hp_negative((T)(-1)) ? (T)((U)0 - (U)a) : (T)(a / b);                   \
  }                                                                                                                \
  HP_FN T hp_fmod_##S(T a, T b) { return b == 0 || (b == (T)(-1) && hp_negative((T)(-1))) ? (T)0 : (T)(a % b); }   \
  HP_FN T hp_remainder_##S(T a, T b) {                                                                             \
    T r = hp_fmod_##S(a, b);                                                                                       \
    return r != 0 && hp_negative(r) != hp_negative(b) ? (T)(r + b) : r;                                            \
  }                                                                                                                \
  HP_FN T hp_floor_divide_##S(T a, T b) {                                                                          \
    T q = hp_trunc_divide_##S(a, b);                                                                               \
    return hp_fmod_##S(a, b) != 0 && hp_negative(a) != hp_negative(b) ? (T)(q - 1) : q;                            \
  }                                                                                                                \
  HP_FN T hp_abs_##S(T a) { return hp_negative(a) ? (T)((U)0 - (U)a) : a; }                                        \
  HP_FN T hp_sign_##S(T a) { return (T)((a > 0) - hp_negative(a)); }                                               \
  HP_FN T hp_gcd_##S(T a, T b) {                                                                                   \
    U x = hp_negative(a) ? 0 - (U)a : (U)a, y = hp_negative(b) ? 0 - (U)b : (U)b;                                  \
    while (y != 0) {                                                                                               \
      U r = x % y;                                                                                                 \
      x = y;                                                                                                       \
      y = r;                                                                                                       \
    }                                                                                                              \
    return (T)x;                                                                                                   \
  }                                                                                                                \
  HP_FN T hp_lcm_##S(T a, T b) {                                                                                   \
    T g = hp_gcd_##S(a, b);                                                                                        \
    U p = g == 0 ? 0 : (U)(a / g) * (U)b;                                                                          \
    return (T)(p >> (sizeof(U) * 8 - 1) ? 0 - p : p);                                                              \
  }                                                                                                                \
  /* A negative exponent gives the truncated reciprocal: 0 except for bases 1 and -1. */                           \
  HP_FN T hp_pow_##S(T a, T b) {                                                                                   \
    if (hp_negative(b)) return a == 1 ? (T)1 : a == (T)(-1) ? (T)(b % 2 ? -1 : 1) : (T)0;                          \
    hp_u64 x = (hp_u64)a, r = 1;                                                                                   \
    for (; b > 0; b = (T)(b / 2), x *= x) r *= b % 2 ? x : 1;                                                      \
    return (T)r;                                                                                                   \
  }                                                                                                                \
  HP_FN T hp_bitwise_left_shift_##S(T a, T b) { return hp_negative(b) || b >= BITS ? (T)0 : (T)((hp_u64)a << b); } \
  HP_FN T hp_bitwise_right_shift_##S(T a, T b) {                                                                   \
    return hp_negative(b) || b >= BITS ? (T)(hp_negative(a) ? -1 : 0) : (T)(a >> b);                               \
  }

HP_DEFINE_INTEGER(i8, hp_i8, hp_u32, 8)
HP_DEFINE_INTEGER(u8, hp_u8, hp_u32, 8)
HP_DEFINE_INTEGER(i16, hp_i16, hp_u32, 16)
HP_DEFINE_INTEGER(i32, hp_i32, hp_u32, 32)
HP_DEFINE_INTEGER(i64, hp_i64, hp_u64, 64)

#endif
