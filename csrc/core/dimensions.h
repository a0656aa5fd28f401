// Sizes and strides of several operands, brought into the form that portable kernels take.
#pragma once

#include <array>

#include "view.h"

namespace hp {

// Of a view: those of a tensor, and one for the words of its elements.
constexpr int kMostDimensions = 65;

// What a kernel declares as `hp_i64 size[8], a[8], b[8], ...`: one array for each of N operands.
template <int N>
struct Geometry {
  int64_t size[kMaxDimensions];
  int64_t stride[N][kMaxDimensions];
};

// Dimensions, fastest first, with neighbours joined where all operands allow it. Every small copy makes one: it
// allocates nothing.
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
    if (count_ > 0) {
      One& last = list_[count_ - 1];
      bool joined = true;
      for (int i = 0; i < N; ++i) joined = joined && last.stride[i] * last.size == stride[i];
      if (joined) {
        last.size *= size;
        return;
      }
    }
    list_[count_++] = {size, stride};
  }
  // Puts the dimension first in which operand `by` has the shortest step; for elements that may be visited in any
  // order. Not std::stable_sort, which allocates.
  void sort(int by) {
    for (int k = 1; k < count_; ++k) {
      const One one = list_[k];
      int place = k;
      for (; place > 0 && one.stride[by] < list_[place - 1].stride[by]; --place) list_[place] = list_[place - 1];
      list_[place] = one;
    }
    const int before = count_;
    count_ = 0;
    for (int k = 0; k < before; ++k) add(list_[k].size, list_[k].stride);
  }
  // There is at least one dimension, if need be of size 1 and with this stride.
  void finish(int64_t stride = 0) {
    if (count_ > 0) return;
    list_[0].size = 1;
    list_[0].stride.fill(stride);
    count_ = 1;
  }
  void clear() { count_ = 0; }

  int count() const { return count_; }
  const One& operator[](int d) const { return list_[d]; }
  int64_t numel() const {
    int64_t n = 1;
    for (int d = 0; d < count_; ++d) n *= list_[d].size;
    return n;
  }
  void write(Geometry<N>& geometry, int first = 0) const {
    for (int d = 0; d < count_; ++d) {
      geometry.size[first + d] = list_[d].size;
      for (int i = 0; i < N; ++i) geometry.stride[i][first + d] = list_[d].stride[i];
    }
  }

 private:
  One list_[kMostDimensions];
  int count_ = 0;
};

}  // namespace hp
