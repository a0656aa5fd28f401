// Attention for float32, float16 and bfloat16: products by cuBLASLt, on the tensor cores where these take the dtype,
// and between them two kernels of our own. Scores are kept in float32, for as many heads at a time as fit a fixed
// amount of memory; the weights that follow from them take their place, row by row. Where flash attention is allowed,
// it takes what it can first, with most strides; the products want contiguous tensors, and copies are made of others.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <optional>
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
  CUfunction weigh = nullptr, weigh_backward = nullptr, rearrange = nullptr;
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
      driver.module_find(&kernels->rearrange, module, "rearrange") != CUDA_SUCCESS ||
      driver.module_find(&kernels->weigh_backward, module, "weigh_backward") != CUDA_SUCCESS ||
      driver.module_find(&kernels->weigh, module, "weigh") != CUDA_SUCCESS) {
    kernels->weigh = nullptr;
    host->log(HP_LOG_WARNING, "nv: attention goes to portable kernels, its own ones do not compile");
  }
  made[device][dtype].store(kernels, std::memory_order_release);
  return kernels->weigh ? kernels : nullptr;
}

// A tensor of four dimensions that is contiguous for the time of a call: itself, or a copy. What it holds at the end is
// copied back where it is an output.
class Dense {
 public:
  Dense(const DLTensor* given, bool output, const Kernels* kernels, CUstream stream)
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
  Dense(const Dense&) = delete;

  bool allocated() const { return !scratch_ || scratch_->data; }
  const DLTensor* tensor() const { return given_ ? &used_ : nullptr; }
  // To be called before and after the work: 0, or what was raised.
  int begin() const { return scratch_ && !output_ ? copy(used_, *given_) : 0; }
  int end() const { return scratch_ && output_ ? copy(*given_, used_) : 0; }

 private:
  int copy(const DLTensor& to, const DLTensor& from) const {
    struct {
      int64_t sizes[4], to[4], from[4];
    } layout;
    for (int d = 0; d < 4; ++d)
      layout.sizes[d] = to.shape[d], layout.to[d] = to.strides[d], layout.from[d] = from.strides[d];
    const int64_t rows = to.shape[0] * to.shape[1] * to.shape[2];
    void *there = to.data, *here = from.data, *arguments[] = {&there, &here, &layout};
    const CUresult result = driver.launch(kernels_->rearrange, static_cast<unsigned>((rows + 3) / 4), 1, 1, 128, 1, 1,
                                          0, stream_, arguments, nullptr);
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

// As weigh.inc has it: there, no strides of a mask ask for a copy.
struct Mask {
  void* data;
  int64_t heads, first, strides[4];
};

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
    if (!can_multiply()) return "cuBLASLt is not installed";
    if (capability(device) < 80) return "attention needs compute capability 8.0";
    const int64_t share = query.shape[1] / key.shape[1];
    heads = key.shape[0] * key.shape[1];
    queries = query.shape[2];
    rows = share * queries;
    keys = key.shape[2];
    dim = query.shape[3];
    value_dim = value.shape[3];
    bytes = query.dtype.bits / 8;
    // The last bound is for copies of what is not contiguous.
    if (heads * rows / 4 >= INT32_MAX || heads * keys / 4 >= INT32_MAX) return "more rows than a launch can have";
    chunk = std::clamp<int64_t>(kScores / (rows * keys * 4), 1, heads);
    causal = causal_ != 0;
    scale = static_cast<float>(scale_);
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
  Dense dense(const DLTensor* tensor, bool output = false) const { return Dense(tensor, output, kernels, stream); }
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

// Copies what has to be copied.
int begin(std::initializer_list<const Dense*> all) {
  for (const Dense* one : all) {
    if (!one->allocated()) return decline("no memory for a contiguous copy");
  }
  for (const Dense* one : all) {
    if (int error = one->begin()) return error;
  }
  return 0;
}

// out, lse, query, key, value, mask, causal, scale, dropout, seed, offset
int attention(const Call& call) {
  const DLTensor* lse = call.tensor(1);
  const Dropping all(call, 8);
  const Flash flash{call.tensor(2), call.tensor(3), call.tensor(4), call.integer(6), call.real(7)};
  if (flash.takes(call.tensor(5), {call.tensor(0)})) return flash.forward(call.tensor(0), lse, all);
  Shape shape;
  if (const char* why = shape.read(*flash.query, *flash.key, *flash.value, flash.causal, flash.scale)) {
    return decline(why);
  }
  const Dense outs = shape.dense(call.tensor(0), true), queries = shape.dense(flash.query),
              keys = shape.dense(flash.key), values = shape.dense(flash.value);
  if (int error = begin({&outs, &queries, &keys, &values})) return error;
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
    Dropping dropping = all.from(row, shape.keys);
    void* arguments[] = {&scores,     &sums,         &mask,        &rows,    &shape.queries,
                         &shape.keys, &shape.causal, &shape.scale, &dropping};
    if (int error = shape.launch(shape.kernels->weigh, count, arguments)) return error;
    const Matrix o = shape.part(out, first, count, shape.rows, shape.value_dim);
    if (int error = shape.multiply(o, shape.weights(scratch.data, count), v, false)) return error;
  }
  return outs.end();
}

// grad_query, grad_key, grad_value, grad, query, key, value, mask, out, lse, causal, scale, dropout, seed, offset
int attention_backward(const Call& call) {
  const DLTensor* lse = call.tensor(9);
  const Dropping all(call, 12);
  const Flash flash{call.tensor(4), call.tensor(5), call.tensor(6), call.integer(10), call.real(11)};
  if (flash.takes(call.tensor(7), {call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(3), call.tensor(8)})) {
    return flash.backward(call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(3), call.tensor(8), lse, all);
  }
  Shape shape;
  if (const char* why = shape.read(*flash.query, *flash.key, *flash.value, flash.causal, flash.scale)) {
    return decline(why);
  }
  const Dense of_query = shape.dense(call.tensor(0), true), of_key = shape.dense(call.tensor(1), true),
              of_value = shape.dense(call.tensor(2), true), given = shape.dense(call.tensor(3)),
              queries = shape.dense(flash.query), keys = shape.dense(flash.key), values = shape.dense(flash.value),
              results = shape.dense(call.tensor(8));
  if (int error = begin({&of_query, &of_key, &of_value, &given, &queries, &keys, &values, &results})) return error;
  const DLTensor *grad = given.tensor(), *query = queries.tensor(), *key = keys.tensor(), *value = values.tensor(),
                 *out = results.tensor();
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
    Mask mask = shape.mask(call.tensor(7), row);
    void* grads = shape.at<void>(grad, row * shape.value_dim, shape.bytes);
    void* outs = shape.at<void>(out, row * shape.value_dim, shape.bytes);
    int64_t rows = count * shape.rows;
    Dropping dropping = all.from(row, shape.keys);
    void* arguments[] = {&score,        &slope,       &sums,          &mask,       &grads,
                         &outs,         &rows,        &shape.queries, &shape.keys, &shape.value_dim,
                         &shape.causal, &shape.scale, &dropping};
    if (int error = shape.launch(shape.kernels->weigh_backward, count, arguments)) return error;
    const Matrix p = shape.weights(scores.data, count), d = shape.weights(slopes.data, count);
    const Matrix grad_q = shape.part(of_query.tensor(), first, count, shape.rows, shape.dim);
    const Matrix grad_k = shape.part(of_key.tensor(), first, count, shape.keys, shape.dim);
    const Matrix grad_v = shape.part(of_value.tensor(), first, count, shape.keys, shape.value_dim);
    if (int error = shape.multiply(grad_v, p.transposed(), g, false)) return error;
    if (int error = shape.multiply(grad_q, d, k, false)) return error;
    if (int error = shape.multiply(grad_k, d.transposed(), q, false)) return error;
  }
  for (const Dense* made : {&of_query, &of_key, &of_value}) {
    if (int error = made->end()) return error;
  }
  return 0;
}

}  // namespace
}  // namespace nv

NV_KERNEL(attention, nv::attention)
NV_KERNEL(attention_backward, nv::attention_backward)
