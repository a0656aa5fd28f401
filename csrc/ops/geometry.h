// Sizes and strides of several operands, brought into the form that portable kernels take.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "../core/view.h"

namespace hp::ops {

// What a kernel declares as `hp_i64 size[8], a[8], b[8], ...`: one array for each of N operands.
template <int N>
struct Geometry {
  int64_t size[kMaxDimensions];
  int64_t stride[N][kMaxDimensions];
};

// Dimensions, fastest first, with neighbours joined where all operands allow it.
template <int N>
class Dimensions {
 public:
  struct One {
    int64_t size;
    std::array<int64_t, N> stride;
  };

  // A dimension that changes more slowly than those before it.
  void add(int64_t size, std::array<int64_t, N> stride) {
    if (size == 1) return;
    if (!list_.empty()) {
      One& last = list_.back();
      bool joined = true;
      for (int i = 0; i < N; ++i) joined = joined && last.stride[i] * last.size == stride[i];
      if (joined) {
        last.size *= size;
        return;
      }
    }
    list_.push_back({size, stride});
  }
  // Puts the dimension first in which operand `by` has the shortest step; for elements that may be visited in any
  // order.
  void sort(int by) {
    std::vector<One> before;
    before.swap(list_);
    std::stable_sort(before.begin(), before.end(),
                     [by](const One& a, const One& b) { return a.stride[by] < b.stride[by]; });
    for (const One& one : before) add(one.size, one.stride);
  }
  // There is at least one dimension, if need be of size 1.
  void finish() {
    if (list_.empty()) list_.push_back({1, {}});
  }

  int count() const { return static_cast<int>(list_.size()); }
  const One& operator[](int d) const { return list_[d]; }
  int64_t numel() const {
    int64_t n = 1;
    for (const One& one : list_) n *= one.size;
    return n;
  }
  void write(Geometry<N>& geometry, int first = 0) const {
    for (int d = 0; d < count(); ++d) {
      geometry.size[first + d] = list_[d].size;
      for (int i = 0; i < N; ++i) geometry.stride[i][first + d] = list_[d].stride[i];
    }
  }

 private:
  std::vector<One> list_;
};

// An integer type of the same size, for kernels that move elements without a look at them. Elements of 16 bytes are
// pairs of it.
inline DType word_of(DType dtype) {
  switch (info(dtype).bytes) {
    case 1:
      return DType::kU8;
    case 2:
      return DType::kI16;
    case 4:
      return DType::kI32;
    default:
      return DType::kI64;
  }
}
// The type of a complex number's parts, for operators that work on each by itself; else the type itself.
inline DType part_of(DType dtype) {
  return dtype == DType::kC64 ? DType::kF32 : dtype == DType::kC128 ? DType::kF64 : dtype;
}

}  // namespace hp::ops
