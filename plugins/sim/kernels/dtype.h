// Element types of the kernels, and dispatch from DLPack dtypes to C++ types.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <type_traits>

namespace sim {

struct Half {
  uint16_t bits;
};

struct BFloat16 {
  uint16_t bits;
};

struct Bool {
  uint8_t byte;
};

template <class T>
struct Complex {
  T re, im;
};

template <class T>
struct IsComplex : std::false_type {};
template <class T>
struct IsComplex<Complex<T>> : std::true_type {};

inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// 16-bit floats are converted with branch-free integer arithmetic, without even ?:, so that loops vectorize. Rounds to
// nearest, ties to even; NaN stays NaN.
inline uint32_t choose(bool condition, uint32_t yes, uint32_t no) {
  const uint32_t mask = 0u - static_cast<uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

inline float widen(BFloat16 x) { return float_of(static_cast<uint32_t>(x.bits) << 16); }

inline BFloat16 narrow_to_bfloat16(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40u;
  return {static_cast<uint16_t>(choose((bits & 0x7fffffffu) > 0x7f800000u, quiet_nan, rounded))};
}

inline float widen(Half x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16, magnitude = x.bits & 0x7fffu;
  // The exponent biases differ by 112; multiplication also handles subnormals.
  const uint32_t scaled = bits_of(float_of(magnitude << 13) * 0x1p112f);
  return float_of(sign | scaled | choose(magnitude >= 0x7c00u, 0x7f800000u, 0u));
}

inline Half narrow_to_half(float value) {
  const uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffffu;
  // Normal: rebias, add just under half a unit (exactly half if odd), truncate. Overflow carries into the exponent.
  const uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Subnormal: adding 0.5 makes the FPU round at the last bit of a half; then subtract it again.
  const uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
  const uint32_t finite = choose(magnitude < (113u << 23), subnormal, normal);
  const uint32_t special = choose(magnitude > 0x7f800000u, 0x7e00u, 0x7c00u);
  const uint32_t result = choose(magnitude >= (143u << 23), special, finite);
  return {static_cast<uint16_t>((bits >> 16 & 0x8000u) | result)};
}

// The type in which T is computed, with conversions from (`load`) and to (`store`) memory.
template <class T>
struct Arithmetic {
  using Type = T;
  static T load(T x) { return x; }
  static T store(T x) { return x; }
};
template <>
struct Arithmetic<Half> {
  using Type = float;
  static float load(Half x) { return widen(x); }
  static Half store(float x) { return narrow_to_half(x); }
};
template <>
struct Arithmetic<BFloat16> {
  using Type = float;
  static float load(BFloat16 x) { return widen(x); }
  static BFloat16 store(float x) { return narrow_to_bfloat16(x); }
};
template <>
struct Arithmetic<Bool> {
  using Type = bool;
  static bool load(Bool x) { return x.byte != 0; }
  static Bool store(bool x) { return {static_cast<uint8_t>(x)}; }
};
template <class T>
using Value = typename Arithmetic<T>::Type;

// Conversion between compute types, with torch's semantics.
template <class To, class From>
To convert(From x) {
  if constexpr (IsComplex<From>::value && IsComplex<To>::value) {
    return {convert<decltype(To::re)>(x.re), convert<decltype(To::re)>(x.im)};
  } else if constexpr (IsComplex<From>::value && std::is_same_v<To, bool>) {
    return x.re != 0 || x.im != 0;
  } else if constexpr (IsComplex<From>::value) {
    return convert<To>(x.re);
  } else if constexpr (IsComplex<To>::value) {
    return {convert<decltype(To::re)>(x), 0};
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != 0;
  } else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, uint8_t>) {
    return static_cast<uint8_t>(static_cast<int64_t>(x));  // wraps negative numbers, avoiding undefined behavior
  } else {
    return static_cast<To>(x);
  }
}

template <class T>
struct Tag {
  using Type = T;
};

// Returns f(Tag<T>{}) for the C++ type of `dtype`, or otherwise() if there is none.
template <class F, class Otherwise>
int dispatch(DLDataType dtype, F&& f, Otherwise&& otherwise) {
  if (dtype.lanes != 1) return otherwise();
  switch (dtype.code << 8 | dtype.bits) {
    case kDLFloat << 8 | 32:
      return f(Tag<float>{});
    case kDLFloat << 8 | 64:
      return f(Tag<double>{});
    case kDLFloat << 8 | 16:
      return f(Tag<Half>{});
    case kDLBfloat << 8 | 16:
      return f(Tag<BFloat16>{});
    case kDLInt << 8 | 8:
      return f(Tag<int8_t>{});
    case kDLInt << 8 | 16:
      return f(Tag<int16_t>{});
    case kDLInt << 8 | 32:
      return f(Tag<int32_t>{});
    case kDLInt << 8 | 64:
      return f(Tag<int64_t>{});
    case kDLUInt << 8 | 8:
      return f(Tag<uint8_t>{});
    case kDLBool << 8 | 8:
      return f(Tag<Bool>{});
    case kDLComplex << 8 | 64:
      return f(Tag<Complex<float>>{});
    case kDLComplex << 8 | 128:
      return f(Tag<Complex<double>>{});
    default:
      return otherwise();
  }
}

inline bool same_dtype(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

inline std::string dtype_name(DLDataType dtype) {
  static const char* const kNames[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
  if (dtype.code == kDLBool && dtype.bits == 8 && dtype.lanes == 1) return "bool";
  std::string name =
      dtype.code < 7 ? kNames[dtype.code] : "dtype code " + std::to_string(static_cast<int>(dtype.code)) + ", bits ";
  name += std::to_string(static_cast<int>(dtype.bits));
  if (dtype.lanes != 1) name += "x" + std::to_string(static_cast<int>(dtype.lanes));
  return name;
}

}  // namespace sim
