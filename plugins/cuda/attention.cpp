// Attention for float32, float16 and bfloat16: products by cuBLASLt, on the tensor cores where these take the dtype,
// and between them two kernels of our own. Scores are kept in float32, for as many heads at a time as fit a fixed
// amount of memory; the weights that follow from them take their place, row by row. Where flash attention is allowed,
// it takes what it can first.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "attention.h"
#include "blas.h"
#include "device.h"
#include "kernel.h"
#include "nvrtc.h"
#include "scratch.h"
#include "vendor.h"

namespace nv {
namespace {

const char kSource[] =
#include "attention_common.inc"
#include "weigh.inc"
    ;

struct Kernels {
  CUfunction weigh = nullptr, weigh_backward = nullptr;
};

// Compiled when they are first asked for; null where that fails, which is told once.
const Kernels* kernels_of(int device, int dtype) {
  static std::atomic<const Kernels*> made[kMaxDevices][3];
  static std::mutex mutex;
  if (const Kernels* found = made[device][dtype].load(std::memory_order_acquire)) return found->weigh ? found : nullptr;
  std::lock_guard<std::mutex> lock(mutex);
  if (const Kernels* found = made[device][dtype].load(std::memory_order_relaxed)) return found->weigh ? found : nullptr;
  auto* kernels = new Kernels;
  std::string binary;
  CUmodule module = nullptr;
  if (compile_source(capability(device), kSource, ("-DDTYPE=" + std::to_string(dtype)).c_str(), &binary) != HP_OK ||
      driver.module_load(&module, binary.data()) != CUDA_SUCCESS ||
      driver.module_find(&kernels->weigh_backward, module, "weigh_backward") != CUDA_SUCCESS ||
      driver.module_find(&kernels->weigh, module, "weigh") != CUDA_SUCCESS) {
    kernels->weigh = nullptr;
    host->log(HP_LOG_WARNING, "nv: attention goes to portable kernels, its own ones do not compile");
  }
  made[device][dtype].store(kernels, std::memory_order_release);
  return kernels->weigh ? kernels : nullptr;
}

// What forward and backward share. Tensors are contiguous; the heads that share a key are seen as one, with as many
// times the queries.
struct Shape {
  int device, type, dtype;
  int64_t heads, rows, queries, keys, dim, value_dim, bytes;  // of all batches; rows of each; bytes of an element
  int64_t chunk;                                              // heads at a time
  int causal;
  float scale;
  CUstream stream;
  const Kernels* kernels;

  // Null, or why not.
  const char* read(const DLTensor& query, const DLTensor& key, const DLTensor& value, int64_t causal_, double scale_) {
    constexpr int64_t kScores = int64_t{512} << 20;
    device = query.device.device_id;
    type = nv::type_of(query.dtype);
    dtype = type == CUDA_R_32F ? 0 : type == CUDA_R_16F ? 1 : 2;
    if (type < 0 || type == CUDA_R_64F) return "attention takes float32, float16 and bfloat16";
    if (capability(device) < 80) return "attention needs compute capability 8.0";
    const int64_t share = query.shape[1] / key.shape[1];
    heads = key.shape[0] * key.shape[1];
    queries = query.shape[2];
    rows = share * queries;
    keys = key.shape[2];
    dim = query.shape[3];
    value_dim = value.shape[3];
    bytes = query.dtype.bits / 8;
    chunk = std::clamp<int64_t>(kScores / (rows * keys * 4), 1, heads);
    causal = causal_ != 0;
    scale = static_cast<float>(scale_);
    if (rows * chunk / 4 >= INT32_MAX) return "more rows than a launch can have";
    if (enter(device) != HP_OK) return "the device cannot be entered";
    stream = reinterpret_cast<CUstream>(host->current_stream(device));
    kernels = kernels_of(device, dtype);
    return kernels ? nullptr : "its kernels do not compile";
  }
  // Some heads of a tensor with `height` rows of `width` elements.
  Matrix part(const DLTensor* tensor, int64_t first, int64_t count, int64_t height, int64_t width) const {
    return {
        static_cast<char*>(tensor->data) + first * height * width * bytes, count, height * width, height, width, width};
  }
  // Scores, or the weights in their place.
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
  template <class T>
  T* at(const DLTensor* tensor, int64_t elements, int64_t size) const {
    return tensor ? reinterpret_cast<T*>(static_cast<char*>(tensor->data) + elements * size) : nullptr;
  }
};

// out, lse, query, key, value, mask, causal, scale, dropout, seed, offset
int attention(const Call& call) {
  const DLTensor *out = call.tensor(0), *lse = call.tensor(1), *query = call.tensor(2), *key = call.tensor(3),
                 *value = call.tensor(4), *mask = call.tensor(5);
  const Dropping all(call, 8);
  const Flash flash{query, key, value, call.integer(6), call.real(7)};
  if (flash.takes(mask, {out})) return flash.forward(out, lse, all);
  Shape shape;
  if (const char* why = shape.read(*query, *key, *value, call.integer(6), call.real(7))) return decline(why);
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
    void* masked = shape.at<void>(mask, row * shape.keys, shape.bytes);
    int64_t rows = count * shape.rows;
    Dropping dropping = all.from(row, shape.keys);
    void* arguments[] = {&scores,     &sums,         &masked,      &rows,    &shape.queries,
                         &shape.keys, &shape.causal, &shape.scale, &dropping};
    if (int error = shape.launch(shape.kernels->weigh, count, arguments)) return error;
    const Matrix o = shape.part(out, first, count, shape.rows, shape.value_dim);
    if (int error = shape.multiply(o, shape.weights(scratch.data, count), v, false)) return error;
  }
  return 0;
}

// grad_query, grad_key, grad_value, grad, query, key, value, mask, out, lse, causal, scale, dropout, seed, offset
int attention_backward(const Call& call) {
  const DLTensor *grad = call.tensor(3), *query = call.tensor(4), *key = call.tensor(5), *value = call.tensor(6),
                 *mask = call.tensor(7), *out = call.tensor(8), *lse = call.tensor(9);
  const Dropping all(call, 12);
  const Flash flash{query, key, value, call.integer(10), call.real(11)};
  if (flash.takes(mask, {call.tensor(0), call.tensor(1), call.tensor(2), grad, out})) {
    return flash.backward(call.tensor(0), call.tensor(1), call.tensor(2), grad, out, lse, all);
  }
  Shape shape;
  if (const char* why = shape.read(*query, *key, *value, call.integer(10), call.real(11))) return decline(why);
  const int64_t bytes = shape.chunk * shape.rows * shape.keys * 4;
  const Scratch scores(shape.device, bytes), slopes(shape.device, bytes);
  if (!scores.data || !slopes.data) return decline("no memory for the scores");
  for (int64_t first = 0; first < shape.heads; first += shape.chunk) {
    const int64_t count = std::min(shape.chunk, shape.heads - first), row = first * shape.rows;
    const Matrix q = shape.part(query, first, count, shape.rows, shape.dim);
    const Matrix k = shape.part(key, first, count, shape.keys, shape.dim);
    const Matrix v = shape.part(value, first, count, shape.keys, shape.value_dim);
    const Matrix g = shape.part(grad, first, count, shape.rows, shape.value_dim);
    if (int error = shape.multiply(shape.scores(scores.data, count), q, k.transposed(), true)) return error;
    if (int error = shape.multiply(shape.scores(slopes.data, count), g, v.transposed(), true)) return error;
    void *score = scores.data, *slope = slopes.data;
    float* sums = shape.at<float>(lse, row, 4);
    void* masked = shape.at<void>(mask, row * shape.keys, shape.bytes);
    void* grads = shape.at<void>(grad, row * shape.value_dim, shape.bytes);
    void* outs = shape.at<void>(out, row * shape.value_dim, shape.bytes);
    int64_t rows = count * shape.rows;
    Dropping dropping = all.from(row, shape.keys);
    void* arguments[] = {&score,        &slope,       &sums,          &masked,     &grads,
                         &outs,         &rows,        &shape.queries, &shape.keys, &shape.value_dim,
                         &shape.causal, &shape.scale, &dropping};
    if (int error = shape.launch(shape.kernels->weigh_backward, count, arguments)) return error;
    const Matrix p = shape.weights(scores.data, count), d = shape.weights(slopes.data, count);
    const Matrix grad_q = shape.part(call.tensor(0), first, count, shape.rows, shape.dim);
    const Matrix grad_k = shape.part(call.tensor(1), first, count, shape.keys, shape.dim);
    const Matrix grad_v = shape.part(call.tensor(2), first, count, shape.keys, shape.value_dim);
    if (int error = shape.multiply(grad_v, p.transposed(), g, false)) return error;
    if (int error = shape.multiply(grad_q, d, k, false)) return error;
    if (int error = shape.multiply(grad_k, d.transposed(), q, false)) return error;
  }
  return 0;
}

}  // namespace
}  // namespace nv

NV_KERNEL(attention, nv::attention)
NV_KERNEL(attention_backward, nv::attention_backward)
