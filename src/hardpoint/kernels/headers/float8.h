/* 8-bit floats, which kernels only convert. MANTISSA: bits of the mantissa; BIAS: of the exponent. Formats "fn" have no
 * infinity; formats "fnuz" have no negative zero either, whose code is their only NaN. */
HP_FN float hp_load_float8(hp_u8 code, int mantissa, int bias, hp_u32 infinity, hp_u32 nan) {
  const hp_u32 sign = (hp_u32)(code & 0x80u) << 24, rest = code & 0x7fu;
  const hp_u32 normal = (rest << (23 - mantissa)) + ((hp_u32)(127 - bias) << 23);
  /* A denormal number counts steps of the smallest one. */
  const float step = hp_from_bits_f32((hp_u32)(128 - bias - mantissa) << 23);
  hp_u32 bits = rest >> mantissa != 0 ? normal : hp_bits_f32((float)rest * step);
  bits = rest == infinity ? 0x7f800000u : bits;
  return hp_from_bits_f32(rest > infinity || rest == nan || code == nan ? 0x7fc00000u | sign : bits | sign);
}

/* Rounds to nearest, ties to even. Codes above `largest` become `overflow`. */
HP_FN hp_u8 hp_store_float8(float value, int mantissa, int bias, hp_u32 largest, hp_u32 overflow, hp_u32 nan) {
  const hp_u32 bits = hp_bits_f32(value), sign = (bits >> 24) & 0x80u, rest = bits & 0x7fffffffu;
  /* Denormal results: the sum's unit in the last place is the smallest number. */
  const hp_u32 unit = (hp_u32)(151 - bias - mantissa) << 23;
  const hp_u32 small = hp_bits_f32(hp_from_bits_f32(rest) + hp_from_bits_f32(unit)) - unit;
  const hp_u32 half = 1u << (22 - mantissa), odd = (rest >> (23 - mantissa)) & 1u;
  const hp_u32 normal = (rest - ((hp_u32)(127 - bias) << 23) + half - 1u + odd) >> (23 - mantissa);
  hp_u32 code = rest < (hp_u32)(128 - bias) << 23 ? small : normal;
  code = code > largest ? overflow : code;
  code = rest > 0x7f800000u ? nan : code;
  /* The codes of formats without negative zero have no sign if they are 0 or NaN. */
  return (hp_u8)(nan == 0x80u && (code == 0u || code == nan) ? code : sign | code);
}

#define hp_load_f8e4m3fn(v) hp_load_float8(v, 3, 7, 0xffu, 0x7fu)
#define hp_load_f8e5m2(v) hp_load_float8(v, 2, 15, 0x7cu, 0xffu)
#define hp_load_f8e4m3fnuz(v) hp_load_float8(v, 3, 8, 0xffu, 0x80u)
#define hp_load_f8e5m2fnuz(v) hp_load_float8(v, 2, 16, 0xffu, 0x80u)
/* Saturates, infinity included, as torch 2.13 and later. */
#define hp_store_f8e4m3fn(v) hp_store_float8(v, 3, 7, 0x7eu, 0x7eu, 0x7fu)
#define hp_store_f8e5m2(v) hp_store_float8(v, 2, 15, 0x7bu, 0x7cu, 0x7fu)
#define hp_store_f8e4m3fnuz(v) hp_store_float8(v, 3, 8, 0x7fu, 0x80u, 0x80u)
#define hp_store_f8e5m2fnuz(v) hp_store_float8(v, 2, 16, 0x7fu, 0x80u, 0x80u)
