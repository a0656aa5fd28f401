// Nested loops over tensors of equal shape and any strides. Dimensions are merged where the strides allow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/kernel_call.h"
#include "runtime/thread_pool.h"

namespace sim {

// Maximum after merging; beyond it, the call goes to the next tier.
constexpr int kMaxDims = 8;

// Operand 0 is the output, dimension 0 the innermost. Strides are in bytes; a number has no data and stride 0.
template <int N>
struct StridedLoop {
  int dims;
  int64_t numel;
  int64_t size[kMaxDims];
  int64_t stride[N][kMaxDims];
  char* data[N];  // accessible addresses

  // Calls row(pointers) for each row along dimension 0.
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

  // Calls run(part) on several threads, for parts that cover the loop.
  template <class Run>
  void in_parallel(Run run) const {
    constexpr int64_t kMinParallel = 32 << 10,
                      kChunk = 4 << 10;  // elements
    if (numel <= kMinParallel) return run(*this);
    // Split an outer dimension if it is long enough, otherwise an inner one in multiples of 64.
    int d = dims - 1;
    while (d > 1 && size[d] < config.threads) --d;
    if (d == 1 && size[0] > size[1]) d = 0;
    const int64_t unit = d > 1 ? 1 : 64;
    const int64_t step = (kChunk / (numel / size[d]) + unit) / unit * unit;
    parallel_for(static_cast<uint64_t>((size[d] + step - 1) / step), GroupCost::low,
                 [&](uint64_t first, uint64_t last) {
                   const int64_t begin = static_cast<int64_t>(first) * step;
                   StridedLoop part = *this;
                   part.size[d] = std::min(static_cast<int64_t>(last) * step, size[d]) - begin;
                   part.numel = numel / size[d] * part.size[d];
                   for (int k = 0; k < N; ++k)
                     if (data[k]) part.data[k] += begin * stride[k][d];
                   run(part);
                 });
  }

  // Adds an outermost dimension, or extends the current one if all operands step evenly across both.
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

  // Moves the output's smallest stride innermost, then merges dimensions again.
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

// Fills in `loop` for the output tensors[0] and the inputs; null inputs are numbers. Returns 0, or the error code of a
// raised error: different shapes, memory of another device, too many dimensions.
template <int N>
int make_strided_loop(const Call& call, const DLTensor* const (&tensors)[N], StridedLoop<N>* loop) {
  const DLTensor& out = *tensors[0];
  int64_t item[N], dense[N];  // bytes of an element; row-major stride, if the tensor has no strides
  loop->dims = 0;
  loop->numel = 1;
  for (int k = 0; k < N; ++k) {
    if (!tensors[k]) {
      item[k] = 0;
      continue;
    }
    if (tensors[k]->ndim != out.ndim) return call.wrong_shape("the operands must have the same number of dimensions");
    dense[k] = item[k] = tensors[k]->dtype.bits / 8;
  }
  for (int d = out.ndim - 1; d >= 0; --d) {
    const int64_t extent = out.shape[d];
    int64_t strides[N];
    for (int k = 0; k < N; ++k) {
      strides[k] = 0;
      if (!tensors[k]) continue;
      if (tensors[k]->shape[d] != extent) return call.wrong_shape("the operands must have the same shape");
      strides[k] = tensors[k]->strides ? tensors[k]->strides[d] * item[k] : dense[k];
      dense[k] *= extent;
    }
    loop->numel *= extent;
    if (extent != 1 && !loop->push(extent, strides))
      return host->raise("NotImplementedError", "sim: %s takes at most %d dimensions after merging", call.name(),
                         kMaxDims);
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
