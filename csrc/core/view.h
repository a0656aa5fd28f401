// Tensors as the core sees them: what a kernel needs to know, without a framework.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hp {

// Dtypes that portable kernels compute with.
enum class DType : uint8_t { kNone, kF32, kF64, kF16, kBF16, kI8, kI16, kI32, kI64, kU8, kBool, kC64, kC128 };

struct DTypeInfo {
  const char* name;  // what the generators of kernels call it
  int bytes;
};
inline const DTypeInfo& info(DType dtype) {
  static constexpr DTypeInfo table[] = {{"none", 0}, {"f32", 4}, {"f64", 8},  {"f16", 2}, {"bf16", 2},
                                        {"i8", 1},   {"i16", 2}, {"i32", 4},  {"i64", 8}, {"u8", 1},
                                        {"bool", 1}, {"c64", 8}, {"c128", 16}};
  return table[static_cast<int>(dtype)];
}
inline bool is_float(DType d) { return d >= DType::kF32 && d <= DType::kBF16; }
inline bool is_complex(DType d) { return d >= DType::kC64; }
inline bool is_integer(DType d) { return d >= DType::kI8 && d <= DType::kU8; }
// What sums of this dtype are gathered in.
inline DType accumulator(DType d) {
  return d == DType::kF16 || d == DType::kBF16 ? DType::kF32 : is_float(d) || is_complex(d) ? d : DType::kI64;
}

constexpr int kMaxDimensions = 8;

// A strided tensor; strides count elements. Sizes and strides belong to the caller.
struct View {
  void* data = nullptr;
  DType dtype = DType::kNone;
  int ndim = 0;
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;

  bool defined() const { return dtype != DType::kNone; }
  int64_t numel() const {
    int64_t n = 1;
    for (int d = 0; d < ndim; ++d) n *= sizes[d];
    return n;
  }
  int64_t bytes() const { return numel() * info(dtype).bytes; }
  bool contiguous() const {
    int64_t expected = 1;
    for (int d = ndim - 1; d >= 0; --d) {
      if (sizes[d] != 1 && strides[d] != expected) return false;
      expected *= sizes[d];
    }
    return true;
  }
};

}  // namespace hp
