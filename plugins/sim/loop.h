// Nested loops over tensors of one shape and any strides, with as few dimensions as the strides allow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernel.h"
#include "pool.h"

namespace sim {

// After merging; more than these are left to the next tier.
constexpr int kMaxDims = 8;

// Operand 0 is the output. Dimension 0 is the innermost. Strides are in bytes; a number has no data and strides of 0.
template <int N>
struct Loop {
  int dims;
  int64_t numel;
  int64_t size[kMaxDims];
  int64_t stride[N][kMaxDims];
  char* data[N];  // in the alias

  // Calls row(pointers) for each run along dimension 0.
  template <class Row>
  void for_each_row(Row row) const {
    char* at[N];
    for (int k = 0; k < N; ++k) at[k] = data[k];
    int64_t index[kMaxDims] = {};
    for (;;) {
      row(at);
      int d = 1;
      for (; d < dims; ++d) {
        for (int k = 0; k < N; ++k) at[k] += stride[k][d];
        if (++index[d] < size[d]) break;
        for (int k = 0; k < N; ++k) at[k] -= stride[k][d] * size[d];
        index[d] = 0;
      }
      if (d >= dims) return;
    }
  }

  // Calls run(part), on several threads, for loops that together make up this one.
  template <class Run>
  void in_parallel(Run run) const {
    constexpr int64_t kSmallest = 32 << 10, kPart = 4 << 10;  // elements: what is worth sharing out, and in which units
    if (numel <= kSmallest) return run(*this);
    // Along an outer dimension if it is long enough; otherwise in whole tiles of a transposition (kernels_copy.cpp).
    int d = dims - 1;
    while (d > 1 && size[d] < config.threads) --d;
    if (d == 1 && size[0] > size[1]) d = 0;
    const int64_t unit = d > 1 ? 1 : 64;
    const int64_t step = (kPart / (numel / size[d]) + unit) / unit * unit;
    parallel_for(static_cast<uint64_t>((size[d] + step - 1) / step), GroupCost::low,
                 [&](uint64_t first, uint64_t last) {
                   const int64_t begin = static_cast<int64_t>(first) * step;
                   Loop part = *this;
                   part.size[d] = std::min(static_cast<int64_t>(last) * step, size[d]) - begin;
                   part.numel = numel / size[d] * part.size[d];
                   for (int k = 0; k < N; ++k)
                     if (data[k]) part.data[k] += begin * stride[k][d];
                   run(part);
                 });
  }

  // Adds an outermost dimension, or widens the present one when the two are evenly spaced in all operands.
  bool push(int64_t extent, const int64_t (&strides)[N]) {
    if (dims > 0) {
      bool merges = true;
      for (int k = 0; k < N; ++k) merges &= strides[k] == stride[k][dims - 1] * size[dims - 1];
      if (merges) {
        size[dims - 1] *= extent;
        return true;
      }
    }
    if (dims == kMaxDims) return false;
    size[dims] = extent;
    for (int k = 0; k < N; ++k) stride[k][dims] = strides[k];
    ++dims;
    return true;
  }

  // Puts the output's smallest stride innermost and merges again what became evenly spaced.
  void sort() {
    bool sorted = true;
    for (int d = 1; d < dims; ++d) sorted &= magnitude(d - 1) <= magnitude(d);
    if (sorted) return;
    for (int d = 1; d < dims; ++d) {
      for (int e = d; e > 0 && magnitude(e - 1) > magnitude(e); --e) {
        std::swap(size[e - 1], size[e]);
        for (int k = 0; k < N; ++k) std::swap(stride[k][e - 1], stride[k][e]);
      }
    }
    const int before = std::exchange(dims, 0);
    for (int d = 0; d < before; ++d) {
      int64_t strides[N];
      for (int k = 0; k < N; ++k) strides[k] = stride[k][d];
      push(size[d], strides);
    }
  }

 private:
  int64_t magnitude(int d) const { return stride[0][d] < 0 ? -stride[0][d] : stride[0][d]; }
};

// Fills in `loop` for tensors[0] (the output) and the others, of which null ones are numbers. Returns 0, or the error
// code of what it raised: shapes that differ, memory that is not on the output's device, too many dimensions.
template <int N>
int make_loop(const Call& call, const DLTensor* const (&tensors)[N], Loop<N>* loop) {
  const DLTensor& out = *tensors[0];
  int64_t item[N], dense[N];  // bytes of an element; stride of a tensor that has none written down
  loop->dims = 0;
  loop->numel = 1;
  for (int k = 0; k < N; ++k) {
    if (!tensors[k]) {
      item[k] = 0;
      continue;
    }
    if (tensors[k]->ndim != out.ndim) return call.wrong_shape("the operands differ in their number of dimensions");
    dense[k] = item[k] = tensors[k]->dtype.bits / 8;
  }
  for (int d = out.ndim - 1; d >= 0; --d) {
    const int64_t extent = out.shape[d];
    int64_t strides[N];
    for (int k = 0; k < N; ++k) {
      strides[k] = 0;
      if (!tensors[k]) continue;
      if (tensors[k]->shape[d] != extent) return call.wrong_shape("the operands differ in their shapes");
      strides[k] = tensors[k]->strides ? tensors[k]->strides[d] * item[k] : dense[k];
      dense[k] *= extent;
    }
    loop->numel *= extent;
    if (extent != 1 && !loop->push(extent, strides))
      return host->raise("NotImplementedError", "sim: %s takes at most %d dimensions that cannot be merged",
                         call.name(), kMaxDims);
  }
  if (loop->numel == 0) return 0;
  if (loop->dims == 0) loop->push(1, item);
  loop->sort();

  for (int k = 0; k < N; ++k) {
    loop->data[k] = nullptr;
    if (!tensors[k]) continue;
    int64_t first = 0, last = item[k];
    for (int d = 0; d < loop->dims; ++d) {
      const int64_t reach = loop->stride[k][d] * (loop->size[d] - 1);
      (reach < 0 ? first : last) += reach;
    }
    char* const data = static_cast<char*>(tensors[k]->data) + tensors[k]->byte_offset;
    if (tensors[k]->device.device_type != HP_DLPACK_DEVICE_TYPE ||
        !owns(out.device.device_id, data + first, static_cast<size_t>(last - first)))
      return call.not_on_device(*tensors[k], out.device.device_id);
    loop->data[k] = alias_of(data);
  }
  return 0;
}

}  // namespace sim
