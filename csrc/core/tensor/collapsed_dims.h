// Collapses the dimensions of several operands into the sizes and strides that portable kernels take.
#pragma once

#include <array>

#include "core/tensor/view.h"

namespace hp {

// Max rank of a view: torch's 64, plus 1 when a 16-byte element is split in two (raw_view.h).
constexpr int kMaxViewRank = 65;

// Kernel argument, declared by kernels as `hp_i64 size[8], a[8], b[8], ...` with one stride array per operand.
template <int N>
struct StridedShape {
  int64_t size[kMaxKernelRank];
  int64_t stride[N][kMaxKernelRank];
};

// Dimensions, fastest first. Adjacent ones are merged where the strides of all N operands allow it. Does not allocate:
// every small copy builds one.
template <int N>
class CollapsedDims {
 public:
  struct Dim {
    int64_t size;
    std::array<int64_t, N> stride;
  };

  // Adds the next slower dimension.
  void add(int64_t size, std::array<int64_t, N> stride) {
    if (size == 1) return;
    if (count_ > 0) {
      Dim& last = list_[count_ - 1];
      bool mergeable = true;
      for (int i = 0; i < N; ++i) mergeable = mergeable && last.stride[i] * last.size == stride[i];
      if (mergeable) {
        last.size *= size;
        return;
      }
    }
    list_[count_++] = {size, stride};
  }
  // Sorts by operand `by`'s stride, smallest first, for operations that may visit elements in any order. An insertion
  // sort, because std::stable_sort allocates.
  void sort(int by) {
    for (int k = 1; k < count_; ++k) {
      const Dim dim = list_[k];
      int slot = k;
      for (; slot > 0 && dim.stride[by] < list_[slot - 1].stride[by]; --slot) list_[slot] = list_[slot - 1];
      list_[slot] = dim;
    }
    const int before = count_;
    count_ = 0;
    for (int k = 0; k < before; ++k) add(list_[k].size, list_[k].stride);
  }
  // Ensures at least one dimension, adding one of size 1 with this stride if there is none.
  void finish(int64_t stride = 0) {
    if (count_ > 0) return;
    list_[0].size = 1;
    list_[0].stride.fill(stride);
    count_ = 1;
  }
  void clear() { count_ = 0; }

  int count() const { return count_; }
  const Dim& operator[](int d) const { return list_[d]; }
  int64_t numel() const {
    int64_t n = 1;
    for (int d = 0; d < count_; ++d) n *= list_[d].size;
    return n;
  }
  void write(StridedShape<N>& geometry, int first = 0) const {
    for (int d = 0; d < count_; ++d) {
      geometry.size[first + d] = list_[d].size;
      for (int i = 0; i < N; ++i) geometry.stride[i][first + d] = list_[d].stride[i];
    }
  }

 private:
  Dim list_[kMaxViewRank];
  int count_ = 0;
};

}  // namespace hp
