// Tensors of every dtype and layout in the memory of `sim`, calls of its kernels, and their reference values.
#pragma once

#include <tvm/ffi/c_api.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim_host.h"

using Shape = std::vector<int64_t>;

struct Type {
  const char* name;
  DLDataType dtype;
};
inline const Type kTypes[] = {
    {"float32", {kDLFloat, 32, 1}},   {"float64", {kDLFloat, 64, 1}},     {"float16", {kDLFloat, 16, 1}},
    {"bfloat16", {kDLBfloat, 16, 1}}, {"int8", {kDLInt, 8, 1}},           {"int16", {kDLInt, 16, 1}},
    {"int32", {kDLInt, 32, 1}},       {"int64", {kDLInt, 64, 1}},         {"uint8", {kDLUInt, 8, 1}},
    {"bool", {kDLBool, 8, 1}},        {"complex64", {kDLComplex, 64, 1}}, {"complex128", {kDLComplex, 128, 1}},
};
inline const DLDataType kFloat = kTypes[0].dtype;
inline bool is_floating(DLDataType t) { return t.code == kDLFloat || t.code == kDLBfloat; }

// Elements as complex numbers: the reference for every dtype. Written here a second time, on purpose.
using Reference = std::complex<double>;

inline double round_to(double x, int digits, int lowest_exponent, double largest) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double quantum = std::ldexp(1.0, std::max(std::ilogb(x), lowest_exponent) - digits);
  const double rounded = std::nearbyint(x / quantum) * quantum;  // ties to even
  return std::abs(rounded) > largest ? std::copysign(INFINITY, x) : rounded;
}
inline double as_half(double x) { return round_to(x, 10, -14, 65504); }
inline double as_bfloat16(double x) { return round_to(x, 7, -126, 3.3895313892515355e38); }

inline Reference decode(DLDataType t, const unsigned char* at) {
  const auto as = [at](auto value) {
    memcpy(&value, at, sizeof value);
    return value;
  };
  switch (t.code << 8 | t.bits) {
    case kDLFloat << 8 | 32:
      return as(float{});
    case kDLFloat << 8 | 64:
      return as(double{});
    case kDLFloat << 8 | 16:
      return static_cast<double>(as(_Float16{}));
    case kDLBfloat << 8 | 16: {
      const uint32_t bits = static_cast<uint32_t>(as(uint16_t{})) << 16;
      float value;
      memcpy(&value, &bits, sizeof value);
      return value;
    }
    case kDLInt << 8 | 8:
      return as(int8_t{});
    case kDLInt << 8 | 16:
      return as(int16_t{});
    case kDLInt << 8 | 32:
      return as(int32_t{});
    case kDLInt << 8 | 64:
      return static_cast<double>(as(int64_t{}));
    case kDLUInt << 8 | 8:
      return as(uint8_t{});
    case kDLBool << 8 | 8:
      return as(uint8_t{});
    case kDLComplex << 8 | 64:
      return as(std::complex<float>{});
    default:
      return as(std::complex<double>{});
  }
}
// `value` must be one that the type can hold.
inline void encode(DLDataType t, Reference value, unsigned char* at) {
  const auto put = [at](auto converted) { memcpy(at, &converted, sizeof converted); };
  const double x = value.real();
  switch (t.code << 8 | t.bits) {
    case kDLFloat << 8 | 32:
      return put(static_cast<float>(x));
    case kDLFloat << 8 | 64:
      return put(x);
    case kDLFloat << 8 | 16:
      return put(static_cast<_Float16>(x));
    case kDLBfloat << 8 | 16: {
      const float narrow = static_cast<float>(x);
      uint32_t bits;
      memcpy(&bits, &narrow, sizeof bits);
      return put(static_cast<uint16_t>(bits >> 16));
    }
    case kDLInt << 8 | 8:
      return put(static_cast<int8_t>(x));
    case kDLInt << 8 | 16:
      return put(static_cast<int16_t>(x));
    case kDLInt << 8 | 32:
      return put(static_cast<int32_t>(x));
    case kDLInt << 8 | 64:
      return put(static_cast<int64_t>(x));
    case kDLUInt << 8 | 8:
      return put(static_cast<uint8_t>(static_cast<int64_t>(x)));
    case kDLBool << 8 | 8:
      return put(static_cast<uint8_t>(value != 0.0));
    case kDLComplex << 8 | 64:
      return put(std::complex<float>(value));
    default:
      return put(value);
  }
}
// What a value becomes in a type: integers wrap, bool is "not zero", real types drop the imaginary part.
inline Reference cast(DLDataType t, Reference value) {
  unsigned char bytes[16];
  if (t.code == kDLFloat && t.bits == 16) return as_half(value.real());
  if (t.code == kDLBfloat) return as_bfloat16(value.real());
  encode(t, value, bytes);
  return decode(t, bytes);
}

// A strided tensor over its own device storage, with a copy of the storage on the host.
struct Tensor {
  Tensor(DLDataType dtype, Shape shape, Shape strides = {}, int device = 0)
      : dtype(dtype), shape(std::move(shape)), strides(std::move(strides)) {
    if (this->strides.empty()) {
      this->strides.resize(this->shape.size());
      int64_t dense = 1;
      for (size_t d = this->shape.size(); d-- > 0; dense *= this->shape[d]) this->strides[d] = dense;
    }
    int64_t span = 1;
    for (size_t d = 0; d < this->shape.size(); ++d) span += (this->shape[d] - 1) * this->strides[d];
    elements = std::max<int64_t>(span, 1);
    storage.resize(static_cast<size_t>(elements) * item());
    memory = std::make_shared<Memory>(storage.size(), device);
    dl = {memory->ptr,
          {static_cast<DLDeviceType>(HP_DLPACK_DEVICE_TYPE), device},
          static_cast<int32_t>(this->shape.size()),
          dtype,
          this->shape.data(),
          this->strides.data(),
          0};
  }
  Tensor(const Tensor&) = delete;

  size_t item() const { return dtype.bits / 8; }
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t extent : shape) n *= extent;
    return n;
  }
  int64_t offset(int64_t index) const {
    int64_t at = 0;
    for (size_t d = shape.size(); d-- > 0; index /= shape[d]) at += index % shape[d] * strides[d];
    return at;
  }
  Reference get(int64_t index) const { return decode(dtype, &storage[static_cast<size_t>(offset(index)) * item()]); }

  // Small numbers, exact in every type and in their sums and products.
  Tensor& pattern(int seed) {
    const bool no_sign = dtype.code == kDLUInt || dtype.code == kDLBool;
    for (int64_t i = 0; i < elements; ++i) {
      const int value = static_cast<int>((i * 7 + seed) % 11);
      const Reference number(no_sign ? value % (dtype.code == kDLBool ? 2 : 11) : value - 5,
                             dtype.code == kDLComplex ? value % 3 - 1 : 0);
      encode(dtype, number, &storage[static_cast<size_t>(i) * item()]);
    }
    memory->write(storage.data());
    return *this;
  }
  Tensor& fill_host(const std::vector<double>& values) {
    for (size_t i = 0; i < values.size(); ++i) encode(dtype, values[i], &storage[i * item()]);
    memory->write(storage.data());
    return *this;
  }
  void read() { memory->read(storage.data()); }

  DLDataType dtype;
  Shape shape, strides;
  int64_t elements = 0;
  std::vector<unsigned char> storage;
  std::shared_ptr<Memory> memory;
  DLTensor dl{};
};

inline TVMFFIAny argument(const Tensor& tensor) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIDLTensorPtr;
  any.v_ptr = const_cast<DLTensor*>(&tensor.dl);
  return any;
}
inline TVMFFIAny argument(int value) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIInt;
  any.v_int64 = value;
  return any;
}
inline TVMFFIAny argument(double value) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIFloat;
  any.v_float64 = value;
  return any;
}

template <class... Arguments>
int call(const char* kernel, const Arguments&... arguments) {
  const TVMFFIAny packed[] = {argument(arguments)...};
  for (size_t i = 0; i < sim().num_kernels; ++i)
    if (strcmp(sim().kernels[i].name, kernel) == 0)
      return sim().kernels[i].function(nullptr, packed, sizeof...(arguments), nullptr);
  check::fail(__FILE__, __LINE__, std::string("no kernel ") + kernel);
}
#define CALL(...)                                                                                     \
  do {                                                                                                \
    if (call(__VA_ARGS__) != 0) check::fail(__FILE__, __LINE__, "call(" #__VA_ARGS__ "): " + raised); \
  } while (0)

inline void check_values(Tensor& out, const std::string& what, const std::function<Reference(int64_t)>& expected) {
  synchronize(out.dl.device.device_id);
  out.read();
  for (int64_t i = 0; i < out.numel(); ++i) {
    const Reference want = cast(out.dtype, expected(i)), got = out.get(i);
    if (want != got)
      check::fail(__FILE__, __LINE__,
                  what + ", element " + std::to_string(i) + ": " + std::to_string(got.real()) + " instead of " +
                      std::to_string(want.real()));
  }
}
