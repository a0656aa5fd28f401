// Matrix products with cuBLASLt.
#pragma once

#include <dlpack/dlpack.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace nv {

enum { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 };

// The cudaDataType of a dtype, or -1.
int type_of(DLDataType dtype);

// A matrix or a batch of matrices; strides in elements. Null data means "none".
struct Matrix {
  char* data = nullptr;
  int64_t rows = 0, columns = 0, batch = 1, batch_stride = 0, row_stride = 0, column_stride = 0;

  Matrix() = default;
  // Row-major with `row_stride`.
  Matrix(void* data, int64_t batch, int64_t batch_stride, int64_t rows, int64_t columns, int64_t row_stride)
      : data(static_cast<char*>(data)),
        rows(rows),
        columns(columns),
        batch(batch),
        batch_stride(batch_stride),
        row_stride(row_stride),
        column_stride(1) {}
  explicit Matrix(const DLTensor* tensor) {
    if (!tensor) return;
    const int d = tensor->ndim - 2;
    data = static_cast<char*>(tensor->data) + tensor->byte_offset;
    rows = tensor->shape[d];
    columns = tensor->shape[d + 1];
    row_stride = tensor->strides[d];
    column_stride = tensor->strides[d + 1];
    if (d == 1) {
      batch = tensor->shape[0];
      batch_stride = tensor->strides[0];
    }
  }
  void transpose() {
    std::swap(rows, columns);
    std::swap(row_stride, column_stride);
  }
  Matrix transposed() const {
    Matrix other = *this;
    other.transpose();
    return other;
  }
  // The row stride if rows are contiguous, else 0.
  int64_t row_contiguous_stride() const {
    const bool together = column_stride == 1 || columns == 1;
    const int64_t distance = rows == 1 ? std::max(row_stride, columns) : row_stride;
    return together && distance >= columns ? distance : 0;
  }
  // In bytes, at most 16.
  int alignment() const {
    const auto address = reinterpret_cast<uintptr_t>(data);
    return static_cast<int>(std::min<uintptr_t>(16, address & (~address + 1)));
  }
};

bool has_cublaslt();  // whether cuBLASLt is available

// out = beta * self + alpha * (a @ b), queued on the current stream. `type` is the dtype of a and b, `out_type` of out
// and self. Returns 0, or the code of a raised error: NotImplementedError, before anything is queued, if cuBLASLt does
// not support the call.
int multiply(int device, int type, int out_type, Matrix out, Matrix self, Matrix a, Matrix b, double beta,
             double alpha);

}  // namespace nv
