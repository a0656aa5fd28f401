// Attention for float32, float16 and bfloat16. Flash attention runs first if it is allowed and supports the call.
// Otherwise cuBLASLt computes the products, with two kernels in between. Scores are float32, for as many heads at a
// time as fit in a fixed amount of memory; the weights overwrite them row by row. The products need contiguous tensors:
// others are copied.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <string>

#include "attention.h"
#include "device.h"
#include "kernel_call.h"
#include "kernels.h"
#include "matmul.h"
#include "nvrtc.h"
#include "scratch.h"

namespace nv {
namespace {

const char kSource[] =
#include "attention_common.inc"
#include "attention_softmax.inc"
    ;

struct Kernels {
  CUfunction attention_softmax = nullptr, attention_softmax_backward = nullptr, copy_strided = nullptr;
};

// Compiles the kernels on first use. Returns null on failure, logged once.
const Kernels* kernels_of(int device, int dtype) {
  static std::atomic<const Kernels*> made[kMaxDevices][3];
  static std::mutex mutex;
  if (const Kernels* found = made[device][dtype].load(std::memory_order_acquire))
    return found->attention_softmax ? found : nullptr;
  std::lock_guard<std::mutex> lock(mutex);
  if (const Kernels* found = made[device][dtype].load(std::memory_order_relaxed))
    return found->attention_softmax ? found : nullptr;
  auto* kernels = new Kernels;
  std::string binary;
  CUmodule module = nullptr;
  if (compile_source(capability(device), kSource, ("-DDTYPE=" + std::to_string(dtype)).c_str(), &binary) != HP_OK ||
      driver.module_load(&module, binary.data()) != CUDA_SUCCESS ||
      driver.module_find(&kernels->copy_strided, module, "copy_strided") != CUDA_SUCCESS ||
      driver.module_find(&kernels->attention_softmax_backward, module, "attention_softmax_backward") != CUDA_SUCCESS ||
      driver.module_find(&kernels->attention_softmax, module, "attention_softmax") != CUDA_SUCCESS) {
    kernels->attention_softmax = nullptr;
    host->log(HP_LOG_WARNING, "nv: attention falls back to portable kernels: its own kernels do not compile");
  }
  made[device][dtype].store(kernels, std::memory_order_release);
  return kernels->attention_softmax ? kernels : nullptr;
}

// A contiguous view of a 4-D tensor for one call: the tensor itself or a copy. Copies of outputs are written back.
class ContiguousTensor {
 public:
  ContiguousTensor(const DLTensor* given, bool output, const Kernels* kernels, CUstream stream)
      : given_(given), output_(output), kernels_(kernels), stream_(stream) {
    if (!given) return;
    used_ = *given;
    int64_t step = 1;
    bool contiguous = true;
    for (int d = 3; d >= 0; --d) {
      contiguous &= given->shape[d] == 1 || given->strides[d] == step;
      strides_[d] = step;
      step *= given->shape[d];
    }
    used_.strides = strides_;
    if (contiguous) return;
    scratch_.emplace(given->device.device_id, step * given->dtype.bits / 8);
    used_.data = scratch_->data;
  }
  ContiguousTensor(const ContiguousTensor&) = delete;

  bool allocated() const { return !scratch_ || scratch_->data; }
  const DLTensor* tensor() const { return given_ ? &used_ : nullptr; }
  // Call before and after the work. Return 0, or the code of a raised error.
  int copy_in() const { return scratch_ && !output_ ? copy(used_, *given_) : 0; }
  int copy_out() const { return scratch_ && output_ ? copy(*given_, used_) : 0; }

 private:
  int copy(const DLTensor& to, const DLTensor& from) const {
    struct {
      int64_t sizes[4], to[4], from[4];
    } layout;
    for (int d = 0; d < 4; ++d)
      layout.sizes[d] = to.shape[d], layout.to[d] = to.strides[d], layout.from[d] = from.strides[d];
    const int64_t rows = to.shape[0] * to.shape[1] * to.shape[2];
    void *there = to.data, *here = from.data, *arguments[] = {&there, &here, &layout};
    const CUresult result = driver.launch(kernels_->copy_strided, static_cast<unsigned>((rows + 3) / 4), 1, 1, 128, 1,
                                          1, 0, stream_, arguments, nullptr);
    return result == CUDA_SUCCESS ? 0 : raise_error("attention", "copying a tensor", result);
  }

  const DLTensor* const given_;
  const bool output_;
  const Kernels* const kernels_;
  const CUstream stream_;
  DLTensor used_;
  int64_t strides_[4];
  std::optional<Scratch> scratch_;
};

// Must match the struct in attention_softmax.inc. Masks of any strides are read in place.
struct Mask {
  void* data;
  int64_t heads, first, strides[4];
};

// The problem size, shared by forward and backward. Tensors are contiguous. Query heads that share a key head are
// treated as one head with more queries.
struct Shape {
  int device, type, dtype;
  int64_t heads, rows, queries, keys, dim, value_dim, bytes;  // heads of all batches; rows per head; bytes per element
  int64_t chunk;                                              // heads per pass
  int causal;
  float scale;
  CUstream stream;
  const Kernels* kernels;

  // Returns null, or the reason why the call is not supported.
  const char* read(const DLTensor& query, const DLTensor& key, const DLTensor& value, int64_t causal_, double scale_) {
    constexpr int64_t kMaxScoreBytes = int64_t{512} << 20;
    device = query.device.device_id;
    type = nv::type_of(query.dtype);
    dtype = type == CUDA_R_32F ? 0 : type == CUDA_R_16F ? 1 : 2;
    if (type < 0 || type == CUDA_R_64F) return "attention takes float32, float16 and bfloat16";
    if (!has_cublaslt()) return "cuBLASLt is not installed";
    if (capability(device) < 80) return "attention needs compute capability 8.0";
    const int64_t share = query.shape[1] / key.shape[1];
    heads = key.shape[0] * key.shape[1];
    queries = query.shape[2];
    rows = share * queries;
    keys = key.shape[2];
    dim = query.shape[3];
    value_dim = value.shape[3];
    bytes = query.dtype.bits / 8;
    // heads * keys: for copies of tensors that are not contiguous.
    if (heads * rows / 4 >= INT32_MAX || heads * keys / 4 >= INT32_MAX) return "too many rows for one launch";
    chunk = std::clamp<int64_t>(kMaxScoreBytes / (rows * keys * 4), 1, heads);
    causal = causal_ != 0;
    scale = static_cast<float>(scale_);
    if (make_current(device) != HP_OK) return "the device's context cannot be made current";
    stream = reinterpret_cast<CUstream>(host->current_stream(device));
    kernels = kernels_of(device, dtype);
    return kernels ? nullptr : "the attention kernels do not compile";
  }
  // `count` heads of a tensor, each `height` x `width`.
  Matrix part(const DLTensor* tensor, int64_t first, int64_t count, int64_t height, int64_t width) const {
    return {
        static_cast<char*>(tensor->data) + first * height * width * bytes, count, height * width, height, width, width};
  }
  // The score matrices, and the weights that overwrite them.
  Matrix scores(void* data, int64_t count) const { return {data, count, rows * keys, rows, keys, keys}; }
  Matrix weights(void* data, int64_t count) const {
    const int64_t stride = keys * 4 / bytes;
    return {data, count, rows * stride, rows, keys, stride};
  }
  int multiply(const Matrix& out, const Matrix& a, const Matrix& b, bool to_scores) const {
    return nv::multiply(device, type, to_scores ? CUDA_R_32F : type, out, Matrix(), a, b, 0, 1);
  }
  int launch(CUfunction function, int64_t count, void** arguments) const {
    const auto groups = static_cast<unsigned>((count * rows + 3) / 4);
    const CUresult result = driver.launch(function, groups, 1, 1, 128, 1, 1, 0, stream, arguments, nullptr);
    return result == CUDA_SUCCESS ? 0 : raise_error("attention", "launching a kernel", result);
  }
  ContiguousTensor dense(const DLTensor* tensor, bool output = false) const {
    return ContiguousTensor(tensor, output, kernels, stream);
  }
  Mask mask(const DLTensor* tensor, int64_t row) const {
    if (!tensor) return {};
    const int64_t* strides = tensor->strides;
    return {tensor->data, tensor->shape[1], row, {strides[0], strides[1], strides[2], strides[3]}};
  }
  template <class T>
  T* at(const DLTensor* tensor, int64_t elements, int64_t size) const {
    return tensor ? reinterpret_cast<T*>(static_cast<char*>(tensor->data) + elements * size) : nullptr;
  }
};

// Makes the contiguous copies of inputs.
int copy_in(std::initializer_list<const ContiguousTensor*> all) {
  for (const ContiguousTensor* one : all) {
    if (!one->allocated()) return decline("no memory for a contiguous copy");
  }
  for (const ContiguousTensor* one : all) {
    if (int error = one->copy_in()) return error;
  }
  return 0;
}

// out, lse, query, key, value, mask, causal, scale, dropout, seed, offset
int attention(const Call& call) {
  const DLTensor* lse = call.tensor(1);
  const Dropout all(call, 8);
  const Flash flash{call.tensor(2), call.tensor(3), call.tensor(4), call.integer(6), call.real(7)};
  if (flash.supports(call.tensor(5), {call.tensor(0)})) return flash.forward(call.tensor(0), lse, all);
  Shape shape;
  if (const char* why = shape.read(*flash.query, *flash.key, *flash.value, flash.causal, flash.scale)) {
    return decline(why);
  }
  const ContiguousTensor outs = shape.dense(call.tensor(0), true), queries = shape.dense(flash.query),
                         keys = shape.dense(flash.key), values = shape.dense(flash.value);
  if (int error = copy_in({&outs, &queries, &keys, &values})) return error;
  const DLTensor *out = outs.tensor(), *query = queries.tensor(), *key = keys.tensor(), *value = values.tensor();
  const Scratch scratch(shape.device, shape.chunk * shape.rows * shape.keys * 4);
  if (!scratch.data) return decline("no memory for the scores");
  for (int64_t first = 0; first < shape.heads; first += shape.chunk) {
    const int64_t count = std::min(shape.chunk, shape.heads - first), row = first * shape.rows;
    const Matrix q = shape.part(query, first, count, shape.rows, shape.dim);
    const Matrix k = shape.part(key, first, count, shape.keys, shape.dim);
    const Matrix v = shape.part(value, first, count, shape.keys, shape.value_dim);
    if (int error = shape.multiply(shape.scores(scratch.data, count), q, k.transposed(), true)) return error;
    void* scores = scratch.data;
    float* sums = shape.at<float>(lse, row, 4);
    Mask mask = shape.mask(call.tensor(5), row);
    int64_t rows = count * shape.rows;
    Dropout dropout = all.from(row, shape.keys);
    void* arguments[] = {&scores,     &sums,         &mask,        &rows,   &shape.queries,
                         &shape.keys, &shape.causal, &shape.scale, &dropout};
    if (int error = shape.launch(shape.kernels->attention_softmax, count, arguments)) return error;
    const Matrix o = shape.part(out, first, count, shape.rows, shape.value_dim);
    if (int error = shape.multiply(o, shape.weights(scratch.data, count), v, false)) return error;
  }
  return outs.copy_out();
}

// grad_query, grad_key, grad_value, grad, query, key, value, mask, out, lse, causal, scale, dropout, seed, offset
int attention_backward(const Call& call) {
  const DLTensor* lse = call.tensor(9);
  const Dropout all(call, 12);
  const Flash flash{call.tensor(4), call.tensor(5), call.tensor(6), call.integer(10), call.real(11)};
  if (flash.supports(call.tensor(7),
                     {call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(3), call.tensor(8)})) {
    return flash.backward(call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(3), call.tensor(8), lse, all);
  }
  Shape shape;
  if (const char* why = shape.read(*flash.query, *flash.key, *flash.value, flash.causal, flash.scale)) {
    return decline(why);
  }
  const ContiguousTensor grad_queries = shape.dense(call.tensor(0), true),
                         grad_keys = shape.dense(call.tensor(1), true), grad_values = shape.dense(call.tensor(2), true),
                         given = shape.dense(call.tensor(3)), queries = shape.dense(flash.query),
                         keys = shape.dense(flash.key), values = shape.dense(flash.value),
                         results = shape.dense(call.tensor(8));
  if (int error = copy_in({&grad_queries, &grad_keys, &grad_values, &given, &queries, &keys, &values, &results}))
    return error;
  const DLTensor *grad = given.tensor(), *query = queries.tensor(), *key = keys.tensor(), *value = values.tensor(),
                 *out = results.tensor();
  const int64_t bytes = shape.chunk * shape.rows * shape.keys * 4;
  const Scratch scores(shape.device, bytes), score_grads(shape.device, bytes);
  if (!scores.data || !score_grads.data) return decline("no memory for the scores");
  for (int64_t first = 0; first < shape.heads; first += shape.chunk) {
    const int64_t count = std::min(shape.chunk, shape.heads - first), row = first * shape.rows;
    const Matrix q = shape.part(query, first, count, shape.rows, shape.dim);
    const Matrix k = shape.part(key, first, count, shape.keys, shape.dim);
    const Matrix v = shape.part(value, first, count, shape.keys, shape.value_dim);
    const Matrix g = shape.part(grad, first, count, shape.rows, shape.value_dim);
    if (int error = shape.multiply(shape.scores(scores.data, count), q, k.transposed(), true)) return error;
    if (int error = shape.multiply(shape.scores(score_grads.data, count), g, v.transposed(), true)) return error;
    void *score = scores.data, *score_grad = score_grads.data;
    float* sums = shape.at<float>(lse, row, 4);
    Mask mask = shape.mask(call.tensor(7), row);
    void* grads = shape.at<void>(grad, row * shape.value_dim, shape.bytes);
    void* outs = shape.at<void>(out, row * shape.value_dim, shape.bytes);
    int64_t rows = count * shape.rows;
    Dropout dropout = all.from(row, shape.keys);
    void* arguments[] = {&score,        &score_grad,  &sums,          &mask,       &grads,
                         &outs,         &rows,        &shape.queries, &shape.keys, &shape.value_dim,
                         &shape.causal, &shape.scale, &dropout};
    if (int error = shape.launch(shape.kernels->attention_softmax_backward, count, arguments)) return error;
    const Matrix p = shape.weights(scores.data, count), d = shape.weights(score_grads.data, count);
    const Matrix grad_q = shape.part(grad_queries.tensor(), first, count, shape.rows, shape.dim);
    const Matrix grad_k = shape.part(grad_keys.tensor(), first, count, shape.keys, shape.dim);
    const Matrix grad_v = shape.part(grad_values.tensor(), first, count, shape.keys, shape.value_dim);
    if (int error = shape.multiply(grad_v, p.transposed(), g, false)) return error;
    if (int error = shape.multiply(grad_q, d, k, false)) return error;
    if (int error = shape.multiply(grad_k, d.transposed(), q, false)) return error;
  }
  for (const ContiguousTensor* made : {&grad_queries, &grad_keys, &grad_values}) {
    if (int error = made->copy_out()) return error;
  }
  return 0;
}

}  // namespace
}  // namespace nv

NV_KERNEL(attention, nv::attention)
NV_KERNEL(attention_backward, nv::attention_backward)
