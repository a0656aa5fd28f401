/* Functions of kernels translated from Triton, for every dialect, in addition to math.h and dialect.h. */
/* ---- addresses as numbers; `shift`: the address that kernels see less the one that programs see ---- */
#define HP_TO_POINTER(number) ((number) ? (number) + shift : 0)
#define HP_TO_NUMBER(pointer) ((pointer) ? (hp_i64)(pointer) - shift : 0)

/* ---- guarded kernels: an access outside of the memory of argument `n` is reported, and not done ---- */
#define HP_INSIDE(n, pointer, bytes, line)                                           \
  (hp_inside((HP_GLOBAL const char*)(pointer), start##n, extent##n, (hp_i64)(bytes)) \
       ? 1                                                                           \
       : hp_outside(fault, code, line, n))
HP_FN hp_i32 hp_inside(HP_GLOBAL const char* pointer, HP_GLOBAL const char* start, hp_i64 extent, hp_i64 bytes) {
  return extent < 0 || (pointer >= start && pointer + bytes <= start + extent);
}
/* See headers/fault.h. A limit below -1 says that the index is a line of the program, and tells the argument. */
HP_FN hp_i32 hp_outside(HP_GLOBAL hp_i64* fault, hp_i64 code, hp_i64 line, hp_i64 argument) {
  if (fault[0] == 0) {
    fault[1] = line;
    fault[2] = -2 - argument;
    fault[0] = code;
  }
  return 0;
}

/* ---- functions of libdevice that math.h lacks ---- */
#define HP_LIBDEVICE(S, T)                                                                                          \
  HP_FN T hp_cbrt_##S(T x) { return HP_LIB_##S(cbrt)(x); }                                                          \
  HP_FN T hp_exp10_##S(T x) { return HP_LIB_##S(exp10)(x); }                                                        \
  HP_FN T hp_tgamma_##S(T x) { return HP_LIB_##S(tgamma)(x); }                                                      \
  HP_FN T hp_round_away_##S(T x) { return HP_LIB_##S(round)(x); }                                                   \
  HP_FN T hp_fdim_##S(T x, T y) { return HP_LIB_##S(fdim)(x, y); }                                                  \
  HP_FN T hp_add_rn_##S(T x, T y) { return x + y; }                                                                 \
  HP_FN T hp_sub_rn_##S(T x, T y) { return x - y; }                                                                 \
  /* Adds a number that cannot change the product, so that the compiler does not fuse the next addition with it. */ \
  HP_FN T hp_mul_rn_##S(T x, T y) { return HP_LIB_##S(fma)(x, y, (T) - 0.0); }                                      \
  HP_FN T hp_div_rn_##S(T x, T y) { return x / y; }                                                                 \
  HP_FN T hp_ldexp_int_##S(T x, hp_i32 n) { return HP_LIB_##S(ldexp)(x, n); }                                       \
  HP_FN hp_i32 hp_ilogb_##S(T x) { return HP_LIB_##S(ilogb)(x); }                                                   \
  HP_FN hp_i64 hp_llrint_##S(T x) { return (hp_i64)HP_LIB_##S(rint)(x); }
HP_LIBDEVICE(f32, float)
#ifndef HP_NO_F64
HP_LIBDEVICE(f64, double)
#endif

/* ---- division by a number that many elements share ---- */
/* A factor that keeps the inverse of a divisor in the range of float. */
HP_FN float hp_division_scale(float y) {
  const float size = hp_abs_f32(y);
  return size < 1.17549435e-38f ? 18446744073709551616.0f : size > 4.2535296e37f ? 5.4210108624275222e-20f : 1.0f;
}
/* x / y from scaled = y * scale and inverse = 1 / scaled: one step of Newton's method rounds correctly, except for
 * rare divisors. An infinite or undefined remainder has nothing to correct. */
HP_FN float hp_quotient(float x, float scaled, float inverse, float scale) {
  const float guess = x * inverse, rest = hp_fma_f32(-guess, scaled, x);
  return (hp_abs_f32(rest) < HP_INF_f32 ? hp_fma_f32(rest, inverse, guess) : guess) * scale;
}

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
HP_FN hp_u32 hp_round_e5m2(hp_u32 rest, hp_u32 most) {
  const hp_u32 small = hp_bits_f32(hp_from_bits_f32(rest) + 128.0f) - 0x43000000u; /* multiples of 2^-16 */
  const hp_u32 normal = (rest - 0x38000000u + 0xfffffu + ((rest >> 21) & 1u)) >> 21;
  const hp_u32 byte = rest < 0x38800000u ? small : normal;
  return byte > most ? most : byte;
}
HP_FN hp_u8 hp_store_f8E5M2(float x) {
  const hp_u32 bits = hp_bits_f32(x), sign = (bits >> 24) & 0x80u, rest = bits & 0x7fffffffu;
  return (hp_u8)(sign | (rest > 0x7f800000u ? 0x7fu : hp_round_e5m2(rest, 0x7bu)));
}
HP_FN float hp_load_f8E4M3FN(hp_u8 bits) {
  const hp_u32 rest = (hp_u32)(bits & 0x7fu) << 20, sign = (hp_u32)(bits & 0x80u) << 24;
  const float size = hp_from_bits_f32(rest) * 1.329227995784916e36f; /* 2^120 */
  return hp_from_bits_f32(sign | ((bits & 0x7fu) == 0x7fu ? 0x7fc00000u : hp_bits_f32(size)));
}
/* Overflow gives the largest value, 448, as Triton on NVIDIA does. */
HP_FN hp_u32 hp_round_e4m3(hp_u32 rest, hp_u32 most) {
  const hp_u32 small = hp_bits_f32(hp_from_bits_f32(rest) + 16384.0f) - 0x46800000u; /* multiples of 2^-9 */
  const hp_u32 normal = (rest - 0x3c000000u + 0x7ffffu + ((rest >> 20) & 1u)) >> 20;
  const hp_u32 byte = rest < 0x3c800000u ? small : normal;
  return byte > most ? most : byte;
}
HP_FN hp_u8 hp_store_f8E4M3FN(float x) {
  const hp_u32 bits = hp_bits_f32(x), sign = (bits >> 24) & 0x80u, rest = bits & 0x7fffffffu;
  return (hp_u8)(sign | (rest > 0x7f800000u ? 0x7fu : hp_round_e4m3(rest, 0x7eu)));
}

/* The types of AMD's GPUs: half the value for the same bits, all of them finite but 0x80, which is NaN; no -0. */
HP_FN float hp_signed_fnuz(hp_u8 bits, float size) {
  return bits == 0x80u ? hp_from_bits_f32(0x7fc00000u) : bits & 0x80u ? -size : size;
}
HP_FN float hp_load_f8E5M2FNUZ(hp_u8 bits) {
  return hp_signed_fnuz(bits, hp_from_bits_f32((hp_u32)(bits & 0x7fu) << 21) * 2.596148429267414e33f); /* 2^111 */
}
HP_FN float hp_load_f8E4M3FNUZ(hp_u8 bits) {
  return hp_signed_fnuz(bits, hp_from_bits_f32((hp_u32)(bits & 0x7fu) << 20) * 6.646139978924579e35f); /* 2^119 */
}
HP_FN hp_u8 hp_byte_fnuz(hp_u32 bits, hp_u32 byte) {
  return (hp_u8)((bits & 0x7fffffffu) > 0x7f800000u ? 0x80u : byte ? ((bits >> 24) & 0x80u) | byte : 0u);
}
HP_FN hp_u8 hp_store_f8E5M2FNUZ(float x) {
  const hp_u32 bits = hp_bits_f32(x * 2.0f);
  return hp_byte_fnuz(bits, hp_round_e5m2(bits & 0x7fffffffu, 0x7fu));
}
HP_FN hp_u8 hp_store_f8E4M3FNUZ(float x) {
  const hp_u32 bits = hp_bits_f32(x * 2.0f);
  return hp_byte_fnuz(bits, hp_round_e4m3(bits & 0x7fffffffu, 0x7fu));
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
