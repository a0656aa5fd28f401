// Framework-independent dtypes and strided tensor views, used throughout the core.
#pragma once

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>

namespace hp {

// Portable kernels compute with dtypes up to kC128. The rest can only be stored, moved, converted (but kC32) or passed
// to vendor kernels.
enum class DType : uint8_t {
  kNone,
  kF32,
  kF64,
  kF16,
  kBF16,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kBool,
  kC64,
  kC128,
  kU16,
  kU32,
  kU64,
  kC32,
  kF8E4M3FN,
  kF8E5M2,
  kF8E4M3FNUZ,
  kF8E5M2FNUZ
};

struct DTypeInfo {
  const char* name;  // as in the kernel generators
  int bytes;
  DLDataTypeCode dlpack_code;
};
inline const DTypeInfo& info(DType dtype) {
  static constexpr DTypeInfo table[] = {{"none", 0, kDLOpaqueHandle},
                                        {"f32", 4, kDLFloat},
                                        {"f64", 8, kDLFloat},
                                        {"f16", 2, kDLFloat},
                                        {"bf16", 2, kDLBfloat},
                                        {"i8", 1, kDLInt},
                                        {"i16", 2, kDLInt},
                                        {"i32", 4, kDLInt},
                                        {"i64", 8, kDLInt},
                                        {"u8", 1, kDLUInt},
                                        {"bool", 1, kDLBool},
                                        {"c64", 8, kDLComplex},
                                        {"c128", 16, kDLComplex},
                                        {"u16", 2, kDLUInt},
                                        {"u32", 4, kDLUInt},
                                        {"u64", 8, kDLUInt},
                                        {"c32", 4, kDLComplex},
                                        {"f8e4m3fn", 1, kDLFloat8_e4m3fn},
                                        {"f8e5m2", 1, kDLFloat8_e5m2},
                                        {"f8e4m3fnuz", 1, kDLFloat8_e4m3fnuz},
                                        {"f8e5m2fnuz", 1, kDLFloat8_e5m2fnuz}};
  return table[static_cast<int>(dtype)];
}
inline bool is_float(DType d) { return d >= DType::kF32 && d <= DType::kBF16; }
inline bool is_complex(DType d) { return d == DType::kC64 || d == DType::kC128; }
inline bool is_computable(DType d) { return d != DType::kNone && d <= DType::kC128; }
// Dtypes that portable copies convert.
inline bool is_convertible(DType d) { return d != DType::kNone && d != DType::kC32; }
inline bool is_integer(DType d) { return d >= DType::kI8 && d <= DType::kU8; }
// The dtype in which sums are accumulated.
inline DType accumulator(DType d) {
  return d == DType::kF16 || d == DType::kBF16 ? DType::kF32 : is_float(d) || is_complex(d) ? d : DType::kI64;
}

constexpr int kMaxKernelRank = 8;

// The k-th fastest dimension in channels-last layout: the channels, then space from its last dimension on, then the
// batch.
inline int channels_last_dim(int ndim, int k) { return k == 0 ? 1 : k == ndim - 1 ? 0 : ndim - k; }

// A strided tensor; strides count elements. Owns nothing: the caller keeps data, sizes and strides valid.
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
  // Images (4 dimensions) and volumes (5) that are dense with the channels varying fastest.
  bool channels_last() const {
    if (ndim != 4 && ndim != 5) return false;
    int64_t expected = 1;
    for (int k = 0; k < ndim; ++k) {
      const int d = channels_last_dim(ndim, k);
      if (sizes[d] != 1 && strides[d] != expected) return false;
      expected *= sizes[d];
    }
    return true;
  }
};

// Writes the strides of a contiguous tensor with the view's sizes to `strides`, and returns `strides`.
inline const int64_t* dense_strides(const View& view, int64_t* strides) {
  int64_t step = 1;
  for (int d = view.ndim - 1; d >= 0; --d) strides[d] = step, step *= view.sizes[d];
  return strides;
}
// The same for channels last.
inline const int64_t* channels_last_strides(const View& view, int64_t* strides) {
  int64_t step = 1;
  for (int k = 0; k < view.ndim; ++k) {
    const int d = channels_last_dim(view.ndim, k);
    strides[d] = step;
    step *= view.sizes[d];
  }
  return strides;
}

}  // namespace hp
