/* Functions of libdevice beyond math.h and support.h: included in kernels that call one. */

/* ---- rounding in a direction ---- */
/* The neighbor of a nearest number: `rest` has the sign of what the nearest number lacks of the exact one. Directions:
 * rz, toward zero; rd, down; ru, up. */
#define HP_LD_DOWN_rz(near) ((near) > 0)
#define HP_LD_DOWN_rd(near) 1
#define HP_LD_DOWN_ru(near) 0
#define HP_LD_UP_rz(near) ((near) < 0)
#define HP_LD_UP_rd(near) 0
#define HP_LD_UP_ru(near) 1
#define HP_LD_MOVED(D, S, near, rest)                                       \
  ((rest) < 0 && HP_LD_DOWN_##D(near) ? hp_nextafter_##S(near, -HP_INF_##S) \
   : (rest) > 0 && HP_LD_UP_##D(near) ? hp_nextafter_##S(near, HP_INF_##S)  \
                                      : (near))

/* Rests of sums, products, quotients, square roots. An overflow lacks something in the other direction. Tiny results
 * are scaled by BIG, a power of two, where the rest itself would be rounded to zero. */
#define HP_LD_RESTS(S, T, BIG, TINY)                                                                                \
  HP_FN T hp_ld_sum_rest_##S(T x, T y, T sum) {                                                                     \
    const T second = sum - x;                                                                                       \
    if (hp_abs_##S(sum) == HP_INF_##S && hp_abs_##S(x) < HP_INF_##S && hp_abs_##S(y) < HP_INF_##S) return -sum;     \
    return (x - (sum - second)) + (y - second);                                                                     \
  }                                                                                                                 \
  HP_FN T hp_ld_product_rest_##S(T x, T y, T product) {                                                             \
    if (product == 0 && x != 0 && y != 0) return (x < 0) == (y < 0) ? (T)1 : (T) - 1;                               \
    if (!(hp_abs_##S(product) < TINY)) return hp_fma_##S(x, y, -product);                                           \
    return hp_abs_##S(x) < hp_abs_##S(y) ? hp_fma_##S(x * BIG, y, -product * BIG)                                   \
                                         : hp_fma_##S(x, y * BIG, -product * BIG);                                  \
  }                                                                                                                 \
  HP_FN T hp_ld_quotient_rest_##S(T x, T y, T quotient) {                                                           \
    const T sign = y < 0 ? (T) - 1 : (T)1;                                                                          \
    if (quotient == 0 && x != 0 && hp_abs_##S(y) < HP_INF_##S) return x < 0 ? -sign : sign;                         \
    if (!(hp_abs_##S(x) < TINY)) return sign * hp_fma_##S(-quotient, y, x);                                         \
    return sign *                                                                                                   \
           (hp_abs_##S(y) < 1 ? hp_fma_##S(-quotient, y * BIG, x * BIG) : hp_fma_##S(-quotient * BIG, y, x * BIG)); \
  }                                                                                                                 \
  HP_FN T hp_ld_sqrt_rest_##S(T x, T root) {                                                                        \
    return x < TINY ? hp_fma_##S(-root * BIG, root * BIG, x * BIG * BIG) : hp_fma_##S(-root, root, x);              \
  }                                                                                                                 \
  HP_FN T hp_ld_fma_rest_##S(T x, T y, T z, T near) {                                                               \
    /* The product is too small to change z, or its rest is representable once all is scaled. */                    \
    if (near == z && x != 0 && y != 0) return (x < 0) == (y < 0) ? (T)1 : (T) - 1;                                  \
    if (hp_abs_##S(near) == HP_INF_##S && hp_abs_##S(x) < HP_INF_##S && hp_abs_##S(y) < HP_INF_##S &&               \
        hp_abs_##S(z) < HP_INF_##S)                                                                                 \
      return -near;                                                                                                 \
    const int tiny = hp_abs_##S(x * y) < TINY, first = hp_abs_##S(x) < hp_abs_##S(y);                               \
    x = tiny && first ? x * BIG : x, y = tiny && !first ? y * BIG : y;                                              \
    z = tiny ? z * BIG : z, near = tiny ? near * BIG : near;                                                        \
    const T high = hp_mul_rn_##S(x, y), low = hp_fma_##S(x, y, -high), a = z + low, b = high + a;                   \
    const T a_rest = hp_ld_sum_rest_##S(z, low, a), b_rest = hp_ld_sum_rest_##S(high, a, b);                        \
    return ((b - near) + b_rest) + a_rest;                                                                          \
  }
#define HP_LD_DIRECTED(S, T, D)                                                                        \
  HP_FN T hp_ld_add_##D##_##S(T x, T y) {                                                              \
    const T near = x + y, rest = hp_ld_sum_rest_##S(x, y, near);                                       \
    return HP_LD_MOVED(D, S, near, rest);                                                              \
  }                                                                                                    \
  HP_FN T hp_ld_sub_##D##_##S(T x, T y) { return hp_ld_add_##D##_##S(x, -y); }                         \
  HP_FN T hp_ld_mul_##D##_##S(T x, T y) {                                                              \
    const T near = hp_mul_rn_##S(x, y), rest = hp_ld_product_rest_##S(x, y, near);                     \
    return HP_LD_MOVED(D, S, near, rest);                                                              \
  }                                                                                                    \
  HP_FN T hp_ld_div_##D##_##S(T x, T y) {                                                              \
    const T near = x / y, rest = hp_ld_quotient_rest_##S(x, y, near);                                  \
    return HP_LD_MOVED(D, S, near, rest);                                                              \
  }                                                                                                    \
  HP_FN T hp_ld_rcp_##D##_##S(T x) { return hp_ld_div_##D##_##S(1, x); }                               \
  HP_FN T hp_ld_sqrt_##D##_##S(T x) {                                                                  \
    const T near = hp_sqrt_##S(x), rest = hp_ld_sqrt_rest_##S(x, near);                                \
    return HP_LD_MOVED(D, S, near, rest);                                                              \
  }                                                                                                    \
  HP_FN T hp_ld_fma_##D##_##S(T x, T y, T z) {                                                         \
    const T near = hp_fma_##S(x, y, z), rest = hp_ld_fma_rest_##S(x, y, z, near);                      \
    return HP_LD_MOVED(D, S, near, rest);                                                              \
  }                                                                                                    \
  HP_FN T hp_ld_from_i64_##D##_##S(hp_i64 x) {                                                         \
    const T near = (T)x;                                                                               \
    const int rest = near >= (T)9223372036854775808.0 ? -1 : (x > (hp_i64)near) - (x < (hp_i64)near);  \
    return HP_LD_MOVED(D, S, near, rest);                                                              \
  }                                                                                                    \
  HP_FN T hp_ld_from_u64_##D##_##S(hp_u64 x) {                                                         \
    const T near = (T)x;                                                                               \
    const int rest = near >= (T)18446744073709551616.0 ? -1 : (x > (hp_u64)near) - (x < (hp_u64)near); \
    return HP_LD_MOVED(D, S, near, rest);                                                              \
  }

/* ---- conversions to integers: out of range gives the nearest limit; NaN gives 0, or the lowest int64 ---- */
#define HP_LD_I32 2147483648.0
#define HP_LD_I32_MAX 2147483647
#define HP_LD_U32 4294967296.0
#define HP_LD_U32_MAX 4294967295u
#define HP_LD_I64 9223372036854775808.0
#define HP_LD_I64_MAX 9223372036854775807l
#define HP_LD_U64 18446744073709551616.0
#define HP_LD_U64_MAX 18446744073709551615ul
#define HP_LD_INTEGERS(S, T)                                                                                      \
  HP_FN hp_i32 hp_ld_i32_##S(T x) {                                                                               \
    return x != x ? 0 : x < (T) - HP_LD_I32 ? -HP_LD_I32_MAX - 1 : x >= (T)HP_LD_I32 ? HP_LD_I32_MAX : (hp_i32)x; \
  }                                                                                                               \
  HP_FN hp_u32 hp_ld_u32_##S(T x) { return !(x > 0) ? 0 : x >= (T)HP_LD_U32 ? HP_LD_U32_MAX : (hp_u32)x; }        \
  HP_FN hp_i64 hp_ld_i64_##S(T x) {                                                                               \
    return !(x >= (T) - HP_LD_I64) ? -HP_LD_I64_MAX - 1 : x >= (T)HP_LD_I64 ? HP_LD_I64_MAX : (hp_i64)x;          \
  }                                                                                                               \
  HP_FN hp_u64 hp_ld_u64_##S(T x) {                                                                               \
    return x != x ? 1ul << 63 : !(x > 0) ? 0 : x >= (T)HP_LD_U64 ? HP_LD_U64_MAX : (hp_u64)x;                     \
  }
#define HP_LD_TO_INTEGERS(S, T, D, F)                                                 \
  HP_FN hp_i32 hp_ld_to_i32_##D##_##S(T x) { return hp_ld_i32_##S(hp_##F##_##S(x)); } \
  HP_FN hp_u32 hp_ld_to_u32_##D##_##S(T x) { return hp_ld_u32_##S(hp_##F##_##S(x)); } \
  HP_FN hp_i64 hp_ld_to_i64_##D##_##S(T x) { return hp_ld_i64_##S(hp_##F##_##S(x)); } \
  HP_FN hp_u64 hp_ld_to_u64_##D##_##S(T x) { return hp_ld_u64_##S(hp_##F##_##S(x)); }

/* ---- other functions of floats ---- */
#define HP_LD_FUNCTIONS(S, T)                                                                                   \
  HP_FN T hp_ld_remainder_##S(T x, T y) { return HP_LIB_##S(remainder)(x, y); }                                 \
  HP_FN T hp_ld_rhypot_##S(T x, T y) { return 1 / hp_hypot_##S(x, y); }                                         \
  HP_FN T hp_ld_norm3d_##S(T x, T y, T z) { return hp_hypot_##S(hp_hypot_##S(x, y), z); }                       \
  HP_FN T hp_ld_rnorm3d_##S(T x, T y, T z) { return 1 / hp_ld_norm3d_##S(x, y, z); }                            \
  HP_FN T hp_ld_norm4d_##S(T x, T y, T z, T w) { return hp_hypot_##S(hp_hypot_##S(x, y), hp_hypot_##S(z, w)); } \
  HP_FN T hp_ld_rnorm4d_##S(T x, T y, T z, T w) { return 1 / hp_ld_norm4d_##S(x, y, z, w); }                    \
  HP_FN T hp_ld_rcbrt_##S(T x) { return 1 / hp_cbrt_##S(x); }                                                   \
  HP_FN T hp_ld_powi_##S(T x, hp_i32 n) { return hp_pow_##S(x, (T)n); }                                         \
  HP_FN hp_i64 hp_ld_llround_##S(T x) { return hp_ld_i64_##S(hp_round_away_##S(x)); }                           \
  HP_FN T hp_ld_logb_##S(T x) {                                                                                 \
    return x == 0 ? -HP_INF_##S : hp_abs_##S(x) < HP_INF_##S ? (T)HP_LIB_##S(ilogb)(x) : x * x;                 \
  }                                                                                                             \
  /* sin(pi x): the last half turn of x, so that whole numbers give exact zeros. */                             \
  HP_FN T hp_ld_sinpi_##S(T x) {                                                                                \
    const T turns = hp_round_##S(x * (T)0.5), rest = hp_fma_##S((T) - 2, turns, x);                             \
    const T small = rest > (T)0.5 ? 1 - rest : rest < (T) - 0.5 ? -1 - rest : rest;                             \
    return hp_abs_##S(x) < HP_INF_##S ? hp_sin_##S(small * (T)3.14159265358979323846) : x - x;                  \
  }                                                                                                             \
  HP_FN T hp_ld_cospi_##S(T x) {                                                                                \
    const T turns = hp_round_##S(x * (T)0.5), rest = hp_abs_##S(hp_fma_##S((T) - 2, turns, x));                 \
    return hp_abs_##S(x) < HP_INF_##S ? hp_ld_sinpi_##S((T)0.5 - rest) : x - x;                                 \
  }
#define HP_LD_ALL(S, T, BIG, TINY)                         \
  HP_LD_RESTS(S, T, BIG, TINY)                             \
  HP_LD_DIRECTED(S, T, rz)                                 \
  HP_LD_DIRECTED(S, T, rd)                                 \
  HP_LD_DIRECTED(S, T, ru)                                 \
  HP_LD_INTEGERS(S, T)                                     \
  HP_LD_TO_INTEGERS(S, T, rn, round)                       \
  HP_LD_TO_INTEGERS(S, T, rz, trunc)                       \
  HP_LD_TO_INTEGERS(S, T, rd, floor)                       \
  HP_LD_TO_INTEGERS(S, T, ru, ceil)                        \
  HP_FN T hp_ld_from_i64_rn_##S(hp_i64 x) { return (T)x; } \
  HP_FN T hp_ld_from_u64_rn_##S(hp_u64 x) { return (T)x; } \
  HP_LD_FUNCTIONS(S, T)
HP_LD_ALL(f32, float, 18446744073709551616.0f, 1e-18f)
HP_FN float hp_ld_saturate(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
#ifndef HP_NO_F64
HP_LD_ALL(f64, double, 1.3407807929942597e154, 1e-200)
HP_FN float hp_ld_narrow_rn(double x) { return (float)x; }
#define HP_LD_NARROW(D)                     \
  HP_FN float hp_ld_narrow_##D(double x) {  \
    const float near = (float)x;            \
    const double rest = x - (double)near;   \
    return HP_LD_MOVED(D, f32, near, rest); \
  }
HP_LD_NARROW(rz)
HP_LD_NARROW(rd)
HP_LD_NARROW(ru)
HP_FN double hp_ld_from_words(hp_u32 high, hp_u32 low) { return hp_from_bits_f64((hp_u64)high << 32 | low); }
HP_FN hp_i32 hp_ld_low_word(double x) { return (hp_i32)(hp_u32)hp_bits_f64(x); }
HP_FN hp_i32 hp_ld_high_word(double x) { return (hp_i32)(hp_bits_f64(x) >> 32); }
HP_FN hp_i64 hp_ld_bits_f64(double x) { return (hp_i64)hp_bits_f64(x); }
HP_FN double hp_ld_from_bits_f64(hp_i64 x) { return hp_from_bits_f64((hp_u64)x); }
#endif
/* Needs math_special.h. */
#define hp_ld_erfcinv_f32(x) (-hp_ndtri_f32(0.5f * (x)) * 0.70710678f)
#define hp_ld_erfcinv_f64(x) (-hp_ndtri_f64(0.5 * (x)) * 0.70710678118654752440)
HP_FN hp_i32 hp_ld_bits_f32(float x) { return (hp_i32)hp_bits_f32(x); }
HP_FN float hp_ld_from_bits_f32(hp_i32 x) { return hp_from_bits_f32((hp_u32)x); }

/* ---- integers ---- */
HP_FN hp_i32 hp_ld_popc_64(hp_u64 x) {
  x -= x >> 1 & 0x5555555555555555ul;
  x = (x & 0x3333333333333333ul) + (x >> 2 & 0x3333333333333333ul);
  return (hp_i32)(((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0ful) * 0x0101010101010101ul >> 56);
}
HP_FN hp_i32 hp_ld_popc_32(hp_u32 x) { return hp_ld_popc_64(x); }
/* Fills the bits below the highest one, or takes the bits below the lowest one, and counts. */
HP_FN hp_i32 hp_ld_clz_64(hp_u64 x) {
  x |= x >> 1;
  x |= x >> 2;
  x |= x >> 4;
  x |= x >> 8;
  x |= x >> 16;
  return 64 - hp_ld_popc_64(x | x >> 32);
}
HP_FN hp_i32 hp_ld_clz_32(hp_u32 x) { return hp_ld_clz_64(x) - 32; }
HP_FN hp_i32 hp_ld_ffs_64(hp_u64 x) { return x ? hp_ld_popc_64(x ^ (x - 1)) : 0; }
HP_FN hp_i32 hp_ld_ffs_32(hp_u32 x) { return hp_ld_ffs_64(x); }
HP_FN hp_i64 hp_ld_brev_64(hp_u64 x) {
  hp_u64 found = 0;
  for (int bit = 0; bit < 64; ++bit) found = found << 1 | (x >> bit & 1);
  return (hp_i64)found;
}
HP_FN hp_i32 hp_ld_brev_32(hp_u32 x) { return (hp_i32)((hp_u64)hp_ld_brev_64(x) >> 32); }
HP_FN hp_i32 hp_ld_byte_perm(hp_u32 x, hp_u32 y, hp_u32 choice) {
  const hp_u64 bytes = (hp_u64)y << 32 | x;
  hp_u32 found = 0;
  for (int at = 0; at < 4; ++at) found |= (hp_u32)(bytes >> (choice >> 4 * at & 7u) * 8 & 255u) << 8 * at;
  return (hp_i32)found;
}
HP_FN hp_i32 hp_ld_mulhi_i32(hp_i32 x, hp_i32 y) { return (hp_i32)((hp_i64)x * y >> 32); }
HP_FN hp_u32 hp_ld_mulhi_u32(hp_u32 x, hp_u32 y) { return hp_mulhi_u32(x, y); }
HP_FN hp_u64 hp_ld_mulhi_u64(hp_u64 x, hp_u64 y) { return hp_mulhi_u64(x, y); }
HP_FN hp_i64 hp_ld_mulhi_i64(hp_i64 x, hp_i64 y) {
  return (hp_i64)(hp_mulhi_u64((hp_u64)x, (hp_u64)y) - (x < 0 ? (hp_u64)y : 0) - (y < 0 ? (hp_u64)x : 0));
}
HP_FN hp_i32 hp_ld_mul24_i32(hp_u32 x, hp_u32 y) { /* the lower 24 bits, signed */
  return (hp_i32)((hp_u32)((hp_i32)(x << 8) >> 8) * (hp_u32)((hp_i32)(y << 8) >> 8));
}
HP_FN hp_u32 hp_ld_mul24_u32(hp_u32 x, hp_u32 y) { return (x & 0xffffffu) * (y & 0xffffffu); }
HP_FN hp_i32 hp_ld_sad_i32(hp_i32 x, hp_i32 y, hp_u32 z) {
  return (hp_i32)((x > y ? (hp_u32)x - (hp_u32)y : (hp_u32)y - (hp_u32)x) + z);
}
HP_FN hp_u32 hp_ld_sad_u32(hp_u32 x, hp_u32 y, hp_u32 z) { return (x > y ? x - y : y - x) + z; }
HP_FN hp_i32 hp_ld_hadd_i32(hp_i32 x, hp_i32 y) { return (hp_i32)(((hp_i64)x + y) >> 1); }
HP_FN hp_u32 hp_ld_hadd_u32(hp_u32 x, hp_u32 y) { return (hp_u32)(((hp_u64)x + y) >> 1); }
HP_FN hp_i32 hp_ld_rhadd_i32(hp_i32 x, hp_i32 y) { return (hp_i32)(((hp_i64)x + y + 1) >> 1); }
HP_FN hp_u32 hp_ld_rhadd_u32(hp_u32 x, hp_u32 y) { return (hp_u32)(((hp_u64)x + y + 1) >> 1); }
HP_FN hp_i32 hp_ld_abs_i32(hp_i32 x) { return (hp_i32)(x < 0 ? 0u - (hp_u32)x : (hp_u32)x); }
HP_FN hp_i64 hp_ld_abs_i64(hp_i64 x) { return (hp_i64)(x < 0 ? 0ul - (hp_u64)x : (hp_u64)x); }
