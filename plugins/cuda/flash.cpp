// Launches the kernels in flash_forward.inc and flash_backward.inc.
#include <initializer_list>
#include <mutex>
#include <string>
#include <utility>

#include "attention.h"
#include "device.h"
#include "matmul.h"
#include "nvrtc.h"
#include "scratch.h"

namespace nv {
namespace {

const char kForward[] =
#include "attention_common.inc"
#include "flash_tiles.inc"
// In this order: the kernels use the tiles.
#include "flash_forward.inc"
    ;
const char kBackward[] =
#include "attention_common.inc"
#include "flash_tiles.inc"
// In this order: the kernels use the tiles.
#include "flash_backward.inc"
    ;
constexpr unsigned kThreads = 128;

// A kernel, with the rows and bytes of shared memory per block; must match the .inc files.
struct Kernel {
  CUfunction function = nullptr;
  int64_t rows = 0;
  unsigned shared = 0;
};
struct Kernels {
  Kernel forward, sums, queries, keys;

  explicit Kernels(bool wide) {
    const unsigned row = wide ? 256 : 128, columns = wide ? 32 : 64;
    forward.rows = queries.rows = 128;
    keys.rows = wide ? 64 : 128;
    sums.rows = wide ? 8 : 16;
    forward.shared = (128 + 4 * 64) * row;
    queries.shared = (2 * 128 + 4 * columns) * row;
    keys.shared = (2 * (wide ? 64 : 128) + 4 * columns) * row + 2 * columns * 8 + (wide ? 4096 : 8192);
  }
};

bool load(int device, const char* source, const std::string& options,
          std::initializer_list<std::pair<const char*, Kernel*>> wanted) {
  std::string binary;
  CUmodule module = nullptr;
  if (compile_source(capability(device), source, options.c_str(), &binary) != HP_OK ||
      driver.module_load(&module, binary.data()) != CUDA_SUCCESS) {
    return false;
  }
  for (const auto& [name, kernel] : wanted) {
    if (driver.module_find(&kernel->function, module, name) != CUDA_SUCCESS ||
        driver.function_set(kernel->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                            static_cast<int>(kernel->shared)) != CUDA_SUCCESS) {
      return false;
    }
  }
  return true;
}

// Compiles the kernels on first use. Returns null on failure, logged once.
const Kernels* kernels_of(int device, bool half, bool wide, bool drops, bool backward) {
  static std::atomic<const Kernels*> all[kMaxDevices][2][2][2][2];
  static const Kernels none(false);
  static std::mutex mutex;
  std::atomic<const Kernels*>& made = all[device][half][wide][drops][backward];
  const Kernels* found = made.load(std::memory_order_acquire);
  if (!found) {
    std::lock_guard<std::mutex> lock(mutex);
    found = made.load(std::memory_order_relaxed);
    if (!found) {
      const std::string options = std::string("-DDTYPE=") + (half ? "1" : "2") + " -DDIM=" + (wide ? "128" : "64") +
                                  (drops ? " -DDROPS=1" : " -DDROPS=0");
      auto* k = new Kernels(wide);
      const bool works = backward ? load(device, kBackward, options,
                                         {{"flash_backward_sums", &k->sums},
                                          {"flash_backward_query", &k->queries},
                                          {"flash_backward_key_value", &k->keys}})
                                  : load(device, kForward, options, {{"flash_forward", &k->forward}});
      if (!works)
        host->log(HP_LOG_WARNING, "nv: flash attention is disabled: its kernels cannot be compiled or loaded");
      found = works ? k : &none;
      made.store(found, std::memory_order_release);
    }
  }
  return found == &none ? nullptr : found;
}

// Must match the struct in flash_tiles.inc.
struct Tensor {
  explicit Tensor(const DLTensor* given) : data(given->data) {
    int64_t* const to[] = {&batch, &head, &row};
    for (int d = 0; d < 3; ++d) *to[d] = given->shape[d] == 1 ? 0 : given->strides[d];
  }
  void* data;
  int64_t batch, head, row;
};

// Whether rows can be copied in 16-byte pieces.
bool has_aligned_rows(const DLTensor* given) {
  constexpr int64_t kMost = 1 << 24;
  const Tensor tensor(given);
  return reinterpret_cast<uintptr_t>(given->data) % 16 == 0 && given->strides[3] == 1 && tensor.batch % 8 == 0 &&
         tensor.head % 8 == 0 && tensor.row % 8 == 0 && tensor.row >= 0 && tensor.row < kMost;
}

// The sizes, as passed to the kernels.
struct Sizes {
  explicit Sizes(const Flash& given)
      : device(given.query->device.device_id),
        batches(static_cast<int>(given.query->shape[0])),
        heads(static_cast<int>(given.query->shape[1])),
        share(static_cast<int>(given.query->shape[1] / given.key->shape[1])),
        queries(static_cast<int>(given.query->shape[2])),
        keys(static_cast<int>(given.key->shape[2])),
        dim(static_cast<int>(given.query->shape[3])),
        causal(given.causal != 0),
        half(type_of(given.query->dtype) == CUDA_R_16F),
        scale(static_cast<float>(given.scale)) {}
  // Launches one block per kernel.rows rows, for `count` heads of `rows` rows.
  int launch(const Kernel& kernel, int64_t count, int64_t rows, void** arguments) const {
    const auto stream = reinterpret_cast<CUstream>(host->current_stream(device));
    const auto groups = static_cast<unsigned>(count * ((rows + kernel.rows - 1) / kernel.rows));
    const CUresult result =
        driver.launch(kernel.function, groups, 1, 1, kThreads, 1, 1, kernel.shared, stream, arguments, nullptr);
    return result == CUDA_SUCCESS ? 0 : raise_error("flash attention", "launching a kernel", result);
  }

  int device;
  int batches, heads, share, queries, keys, dim, causal;
  bool half;
  float scale;
};

}  // namespace

std::atomic<bool> allow_flash{true};

bool Flash::supports(const DLTensor* mask, std::initializer_list<const DLTensor*> others) const {
  if (!allow_flash.load(std::memory_order_relaxed) || mask) return false;
  const int type = type_of(query->dtype);
  const int64_t dim = query->shape[3];
  if ((type != CUDA_R_16F && type != CUDA_R_16BF) || dim != value->shape[3] || dim % 8 != 0 || dim > 128) return false;
  // The kernels take the maximum of the unscaled scores, so the scale must be positive.
  if (!(scale > 1e-30) || capability(query->device.device_id) < 80) return false;
  if (query->shape[0] * query->shape[1] * (query->shape[2] + key->shape[2]) >= INT32_MAX) return false;
  for (const DLTensor* tensor : others) {
    if (!has_aligned_rows(tensor)) return false;
  }
  return has_aligned_rows(query) && has_aligned_rows(key) && has_aligned_rows(value);
}

int Flash::forward(const DLTensor* out, const DLTensor* lse, const Dropout& dropout) const {
  Sizes s(*this);
  if (make_current(s.device) != HP_OK) return decline("the device's context cannot be made current");
  const Kernels* kernels = kernels_of(s.device, s.half, s.dim > 64, dropout.threshold != 0, false);
  if (!kernels) return decline("flash attention cannot be compiled");
  void* sums = lse->data;
  Tensor to(out), q(query), k(key), v(value);
  Dropout drops = dropout;
  void* arguments[] = {&to,      &sums,      &q,      &k,     &v,        &s.batches, &s.heads,
                       &s.share, &s.queries, &s.keys, &s.dim, &s.causal, &s.scale,   &drops};
  return s.launch(kernels->forward, int64_t{s.batches} * s.heads, s.queries, arguments);
}

int Flash::backward(const DLTensor* grad_query, const DLTensor* grad_key, const DLTensor* grad_value,
                    const DLTensor* grad, const DLTensor* out, const DLTensor* lse, const Dropout& dropout) const {
  Sizes s(*this);
  if (make_current(s.device) != HP_OK) return decline("the device's context cannot be made current");
  const Kernels* kernels = kernels_of(s.device, s.half, s.dim > 64, dropout.threshold != 0, true);
  if (!kernels) return decline("flash attention cannot be compiled");
  const int64_t heads = int64_t{s.batches} * s.heads;
  int64_t rows = heads * s.queries;
  const Scratch scratch(s.device, rows * 8);
  if (!scratch.data) return decline("no memory for the sums");
  void *sums = scratch.data, *level = lse->data;
  Tensor g(grad), o(out), q(query), k(key), v(value), of_query(grad_query), of_key(grad_key), of_value(grad_value);
  Dropout drops = dropout;
  void* first[] = {&sums, &level, &g, &o, &rows, &s.heads, &s.queries, &s.dim};
  if (int error = s.launch(kernels->sums, 1, rows, first)) return error;
  void* second[] = {&of_query, &g,         &q,      &k,     &v,        &sums,    &s.batches, &s.heads,
                    &s.share,  &s.queries, &s.keys, &s.dim, &s.causal, &s.scale, &drops};
  if (int error = s.launch(kernels->queries, heads, s.queries, second)) return error;
  void* third[] = {&of_key,  &of_value, &g,         &q,      &k,     &v,        &sums,    &s.batches,
                   &s.heads, &s.share,  &s.queries, &s.keys, &s.dim, &s.causal, &s.scale, &drops};
  return s.launch(kernels->keys, heads / s.share, s.keys, third);
}

}  // namespace nv
