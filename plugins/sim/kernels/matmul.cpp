// matmul: [m, k] x [k, n], optionally batched, any strides. Blocks of both inputs are packed into contiguous panels,
// which also handles transposed and 16-bit inputs. Sums are accumulated in float or wider and stored once, at the end.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

#include "kernels/kernel_call.h"
#include "runtime/thread_pool.h"

namespace sim {

namespace {

#define SIM_TILE_NAME BaselineTile
#define SIM_TILE_TARGET
#define SIM_TILE_VECTOR_BYTES 16
#define SIM_TILE_ROWS 4
#include "kernels/matmul_tile.inc"

#if defined(__x86_64__)
#define SIM_TILE_NAME Avx2Tile
#define SIM_TILE_TARGET __attribute__((target("avx2,fma")))
#define SIM_TILE_VECTOR_BYTES 32
#define SIM_TILE_ROWS 6
#include "kernels/matmul_tile.inc"

#define SIM_TILE_NAME Avx512Tile
#define SIM_TILE_TARGET __attribute__((target("avx512f,avx512dq,fma")))
#define SIM_TILE_VECTOR_BYTES 64
#define SIM_TILE_ROWS 12
#include "kernels/matmul_tile.inc"
#endif

template <class T>
struct Tile {
  int rows, columns;
  void (*run)(int64_t depth, const T* a, const T* b, T* sums, int64_t stride, bool first);

  template <class Chosen>
  static Tile of() {
    return {Chosen::kRows, Chosen::kColumns, &Chosen::run};
  }
  static Tile best() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return of<Avx512Tile<T>>();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return of<Avx2Tile<T>>();
#endif
    return of<BaselineTile<T>>();
  }
};

// The accumulator type. Integers must wrap around, which only unsigned types guarantee.
template <class T>
struct Accumulator {
  using Type = Value<T>;
};
template <>
struct Accumulator<int32_t> {
  using Type = uint32_t;
};
template <>
struct Accumulator<int64_t> {
  using Type = uint64_t;
};

// Packing buffer of this thread, reused by later calls.
class Scratch {
 public:
  ~Scratch() { ::operator delete(data_, std::align_val_t{64}); }
  void* get(size_t bytes) {
    if (bytes > size_) {
      ::operator delete(data_, std::align_val_t{64});
      data_ = nullptr;
      size_ = 0;
      data_ = ::operator new(bytes, std::align_val_t{64});
      size_ = bytes;
    }
    return data_;
  }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};
thread_local Scratch scratch;

int64_t round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

// Strides in elements.
template <class T>
struct Matrix {
  T* data;
  int64_t batch, row, column;

  T& at(int64_t i, int64_t j) const { return data[i * row + j * column]; }
  Matrix block(int64_t i, int64_t j) const { return {&at(i, j), batch, row, column}; }
  Matrix transposed() const { return {data, batch, column, row}; }
};

template <class T>
struct Matmul {
  using Sum = typename Accumulator<T>::Type;

  Matrix<T> out;
  Matrix<const T> a, b;
  int64_t batch, m, n, k;

  void operator()() const {
    const int64_t slabs = slabs_per_matrix();
    const auto run = [&](uint64_t first, uint64_t last) {
      for (int64_t at = static_cast<int64_t>(first), next; at < static_cast<int64_t>(last); at = next) {
        const int64_t matrix = at / slabs, begin = at % slabs;
        next = std::min(static_cast<int64_t>(last), (matrix + 1) * slabs);
        const Matmul slab = this->slab(matrix, begin, begin + next - at, slabs);
        if (m * n * k <= kMaxUnpackedProducts) {
          slab.multiply_small();
        } else {
          slab.multiply_blocked();
        }
      }
    };
    const uint64_t groups = static_cast<uint64_t>(batch * slabs);
    if (batch * m * n * k <= kMaxSerialProducts) return run(0, groups);
    parallel_for(groups, GroupCost::high, run);
  }

 private:
  // Up to this many products, packing or using several threads does not pay off.
  static constexpr int64_t kMaxUnpackedProducts = 4096, kMaxSerialProducts = 256 << 10;

  // Number of slabs per matrix, cut along the longer side of the result: at most one per thread, because each slab
  // packs the other input again.
  int64_t slabs_per_matrix() const {
    constexpr int64_t kMinSlab = 32;
    const int64_t threads = config.threads;
    if (batch >= threads || batch * m * n * k <= kMaxSerialProducts) return 1;
    return std::clamp(std::max(m, n) / kMinSlab, int64_t{1}, (threads + batch - 1) / batch);
  }

  // Slabs begin .. end-1 of one matrix of the batch, as a matmul. The cuts do not affect the sum of an element.
  Matmul slab(int64_t matrix, int64_t begin, int64_t end, int64_t slabs) const {
    Matmul slab = *this;
    slab.batch = 1;
    slab.out.data += matrix * out.batch;
    slab.a.data += matrix * a.batch;
    slab.b.data += matrix * b.batch;
    const bool by_rows = m >= n;
    const int64_t length = by_rows ? m : n, first = length * begin / slabs, last = length * end / slabs;
    if (by_rows) {
      slab.m = last - first;
      slab.a = slab.a.block(first, 0);
      slab.out = slab.out.block(first, 0);
    } else {
      slab.n = last - first;
      slab.b = slab.b.block(0, first);
      slab.out = slab.out.block(0, first);
    }
    return slab;
  }
  // Panels of b fit in the L2 cache, a strip of packed a in L1.
  static constexpr int64_t kDepth = 256, kRows = 144, kColumns = 1024;

  static Sum load(T x) { return static_cast<Sum>(Arithmetic<T>::load(x)); }
  static T store(Sum x) { return Arithmetic<T>::store(static_cast<Value<T>>(x)); }

  void multiply_small() const {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        Sum sum = 0;
        for (int64_t p = 0; p < k; ++p) sum += load(a.at(i, p)) * load(b.at(p, j));
        out.at(i, j) = store(sum);
      }
    }
  }

  // Packs `source` (rows x depth) into panels of `height` rows, stored depth by depth and zero-padded.
  static void pack(const Matrix<const T>& source, int64_t rows, int64_t depth, int64_t height, Sum* packed) {
    for (int64_t i = 0; i < rows; i += height, packed += height * depth) {
      const int64_t filled = std::min(height, rows - i);
      if (filled < height) std::fill_n(packed, height * depth, Sum(0));
      if (source.row == 1) {
        for (int64_t p = 0; p < depth; ++p) {
          const T* const from = &source.at(i, p);
          for (int64_t r = 0; r < filled; ++r) packed[p * height + r] = load(from[r]);
        }
      } else {
        for (int64_t r = 0; r < filled; ++r) {
          const T* const from = &source.at(i + r, 0);
          for (int64_t p = 0; p < depth; ++p) packed[p * height + r] = load(from[p * source.column]);
        }
      }
    }
  }

  void multiply_blocked() const {
    static const Tile<Sum> tile = Tile<Sum>::best();
    const int64_t padded_m = round_up(m, tile.rows);
    const int64_t max_columns = round_up(std::min(n, kColumns), tile.columns);
    const int64_t max_depth = std::min(k, kDepth);
    const int64_t max_rows = round_up(std::min(m, kRows), tile.rows);
    Sum* const packed_b = static_cast<Sum*>(scratch.get(
        sizeof(Sum) * static_cast<size_t>((max_columns + max_rows) * max_depth + padded_m * max_columns + 32)));
    Sum* const sums = packed_b + max_columns * max_depth;
    Sum* const packed_a = sums + padded_m * max_columns;

    for (int64_t j = 0; j < n; j += kColumns) {
      const int64_t columns = std::min(kColumns, n - j), stride = round_up(columns, tile.columns);
      for (int64_t p = 0; p < k; p += kDepth) {
        const int64_t depth = std::min(kDepth, k - p);
        pack(b.block(p, j).transposed(), columns, depth, tile.columns, packed_b);
        for (int64_t i = 0; i < m; i += kRows) {
          const int64_t rows = std::min(kRows, m - i);
          pack(a.block(i, p), rows, depth, tile.rows, packed_a);
          for (int64_t jt = 0; jt < columns; jt += tile.columns)
            for (int64_t it = 0; it < rows; it += tile.rows)
              tile.run(depth, packed_a + it * depth, packed_b + jt * depth, sums + (i + it) * stride + jt, stride,
                       p == 0);
        }
      }
      for (int64_t i = 0; i < m; ++i)
        for (int64_t c = 0; c < columns; ++c) out.at(i, j + c) = store(sums[i * stride + c]);
    }
  }
};

// Reads shape and strides of an operand as a batch of matrices. Checks that it lies in the device's memory.
template <class T>
int read_matrix(const Call& call, const DLTensor& tensor, int device, Matrix<T>* matrix) {
  int64_t strides[3], dense = 1;
  int64_t first = 0, last = 1;
  bool empty = false;
  for (int d = tensor.ndim - 1; d >= 0; --d) {
    strides[d] = tensor.strides ? tensor.strides[d] : dense;
    dense *= tensor.shape[d];
    empty |= tensor.shape[d] == 0;
    const int64_t reach = strides[d] * (tensor.shape[d] - 1);
    (reach < 0 ? first : last) += reach;
  }
  T* const data = reinterpret_cast<T*>(static_cast<char*>(tensor.data) + tensor.byte_offset);
  if (!empty && (tensor.device.device_type != HP_DLPACK_DEVICE_TYPE ||
                 !owns(device, data + first, static_cast<size_t>(last - first) * sizeof(T))))
    return call.not_on_device(tensor, device);
  const int d = tensor.ndim - 2;
  *matrix = {alias_of(data), d == 1 ? strides[0] : 0, strides[d], strides[d + 1]};
  return 0;
}

template <class T>
int launch(const Call& call, const DLTensor& out, const DLTensor& a, const DLTensor& b) {
  const int device = out.device.device_id, d = out.ndim - 2;
  Matmul<T> work;
  work.batch = d == 1 ? out.shape[0] : 1;
  work.m = out.shape[d];
  work.n = out.shape[d + 1];
  work.k = a.shape[d + 1];
  if (int error = read_matrix(call, out, device, &work.out)) return error;
  if (int error = read_matrix(call, a, device, &work.a)) return error;
  if (int error = read_matrix(call, b, device, &work.b)) return error;
  if (work.batch * work.m * work.n == 0) return 0;
  const size_t elements = static_cast<size_t>(work.batch * (work.m * work.n + work.m * work.k + work.k * work.n));
  return call.launch(device, elements * sizeof(T), work);
}

int check_shapes(const Call& call, const DLTensor& out, const DLTensor& a, const DLTensor& b) {
  if (out.ndim != 2 && out.ndim != 3) return call.wrong_shape("the operands must have 2 or 3 dimensions");
  if (a.ndim != out.ndim || b.ndim != out.ndim)
    return call.wrong_shape("the operands must have the same number of dimensions");
  const int d = out.ndim - 2;
  if (d == 1 && (a.shape[0] != out.shape[0] || b.shape[0] != out.shape[0]))
    return call.wrong_shape("the operands must have the same batch size");
  if (a.shape[d] != out.shape[d] || b.shape[d + 1] != out.shape[d + 1] || a.shape[d + 1] != b.shape[d])
    return call.wrong_shape("expected [m, n] = [m, k] x [k, n]");
  return 0;
}

int matmul(const Call& call) {
  const DLTensor *out, *a, *b;
  if (int error = call.expect(3)) return error;
  if (int error = call.tensor(0, &out)) return error;
  if (int error = call.tensor(1, &a)) return error;
  if (int error = call.tensor(2, &b)) return error;
  if (int error = check_shapes(call, *out, *a, *b)) return error;
  for (const DLTensor* input : {a, b})
    if (!same_dtype(input->dtype, out->dtype)) return call.wrong_dtype(out->dtype, input->dtype);

  return dispatch(
      out->dtype,
      [&](auto tag) {
        using T = typename decltype(tag)::Type;
        if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, Half> ||
                      std::is_same_v<T, BFloat16> || std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>) {
          return launch<T>(call, *out, *a, *b);
        } else {
          return call.unsupported(out->dtype);
        }
      },
      [&] { return call.unsupported(out->dtype); });
}

}  // namespace

}  // namespace sim

SIM_KERNEL(matmul, sim::matmul)
