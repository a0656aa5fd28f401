// 16-bit floats on the host: conversion to and from float32. Rounds to nearest even and preserves NaN.
#pragma once

#include <cstdint>
#include <cstring>

namespace hp {

struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

inline uint32_t float_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float bits_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline float widen(BFloat16 x) { return bits_float(static_cast<uint32_t>(x.bits) << 16); }

inline BFloat16 to_bfloat16(float value) {
  const uint32_t bits = float_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

inline float widen(Half x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16, magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return bits_float(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // The exponent biases differ by 112. Multiplying also handles subnormals.
  return bits_float(sign | float_bits(bits_float(magnitude << 13) * 0x1p112f));
}

inline Half to_half(float value) {
  const uint32_t sign = float_bits(value) >> 16 & 0x8000u, magnitude = float_bits(value) & 0x7fffffffu;
  uint32_t result;
  if (magnitude > 0x7f800000u) {
    result = 0x7e00u;
  } else if (magnitude >= 0x477ff000u) {  // rounds to infinity: the largest half is 65504
    result = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 rounds at the last bit of a half
    result = float_bits(bits_float(magnitude) + 0.5f) - float_bits(0.5f);
  } else {
    result = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  }
  return {static_cast<uint16_t>(sign | result)};
}

}  // namespace hp
