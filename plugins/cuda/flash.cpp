// Launches the kernels of flash.inc and flash_backward.inc.
#include <initializer_list>
#include <mutex>
#include <string>
#include <utility>

#include "attention.h"
#include "blas.h"
#include "device.h"
#include "nvrtc.h"
#include "scratch.h"

namespace nv {
namespace {

const char kForward[] =
#include "attention_common.inc"
#include "attention_tiles.inc"
#include "flash.inc"
    ;
const char kBackward[] =
#include "attention_common.inc"
#include "attention_tiles.inc"
#include "flash_backward.inc"
    ;
constexpr unsigned kThreads = 128;

// Of a kernel: what a block takes of rows and of shared memory, as the sources have it.
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

// Compiled when they are first asked for; null where that fails, which is told once.
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
      const bool works =
          backward ? load(device, kBackward, options,
                          {{"flash_sums", &k->sums}, {"flash_queries", &k->queries}, {"flash_keys", &k->keys}})
                   : load(device, kForward, options, {{"flash", &k->forward}});
      if (!works) host->log(HP_LOG_WARNING, "nv: flash attention cannot be compiled or loaded, and is not used");
      found = works ? k : &none;
      made.store(found, std::memory_order_release);
    }
  }
  return found == &none ? nullptr : found;
}

// As attention_tiles.inc has it.
struct Tensor {
  explicit Tensor(const DLTensor* given) : data(given->data) {
    int64_t* const to[] = {&batch, &head, &row};
    for (int d = 0; d < 3; ++d) *to[d] = given->shape[d] == 1 ? 0 : given->strides[d];
  }
  void* data;
  int64_t batch, head, row;
};

// Whether rows can be copied 16 bytes at a time.
bool has_rows(const DLTensor* given) {
  constexpr int64_t kMost = 1 << 24;
  const Tensor tensor(given);
  return reinterpret_cast<uintptr_t>(given->data) % 16 == 0 && given->strides[3] == 1 && tensor.batch % 8 == 0 &&
         tensor.head % 8 == 0 && tensor.row % 8 == 0 && tensor.row >= 0 && tensor.row < kMost;
}

// The sizes as the kernels take them.
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
  // Blocks for all rows of so many heads.
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

bool Flash::takes(const DLTensor* mask, std::initializer_list<const DLTensor*> others) const {
  if (!allow_flash.load(std::memory_order_relaxed) || mask) return false;
  const int type = type_of(query->dtype);
  const int64_t dim = query->shape[3];
  if ((type != CUDA_R_16F && type != CUDA_R_16BF) || dim != value->shape[3] || dim % 8 != 0 || dim > 128) return false;
  // The kernels look for the largest score before they scale it.
  if (!(scale > 1e-30) || capability(query->device.device_id) < 80) return false;
  if (query->shape[0] * query->shape[1] * (query->shape[2] + key->shape[2]) >= INT32_MAX) return false;
  for (const DLTensor* tensor : others) {
    if (!has_rows(tensor)) return false;
  }
  return has_rows(query) && has_rows(key) && has_rows(value);
}

int Flash::forward(const DLTensor* out, const DLTensor* lse, const Dropping& dropping) const {
  Sizes s(*this);
  if (enter(s.device) != HP_OK) return decline("the device cannot be entered");
  const Kernels* kernels = kernels_of(s.device, s.half, s.dim > 64, dropping.below != 0, false);
  if (!kernels) return decline("flash attention cannot be compiled");
  void* sums = lse->data;
  Tensor to(out), q(query), k(key), v(value);
  Dropping drops = dropping;
  void* arguments[] = {&to,      &sums,      &q,      &k,     &v,        &s.batches, &s.heads,
                       &s.share, &s.queries, &s.keys, &s.dim, &s.causal, &s.scale,   &drops};
  return s.launch(kernels->forward, int64_t{s.batches} * s.heads, s.queries, arguments);
}

int Flash::backward(const DLTensor* grad_query, const DLTensor* grad_key, const DLTensor* grad_value,
                    const DLTensor* grad, const DLTensor* out, const DLTensor* lse, const Dropping& dropping) const {
  Sizes s(*this);
  if (enter(s.device) != HP_OK) return decline("the device cannot be entered");
  const Kernels* kernels = kernels_of(s.device, s.half, s.dim > 64, dropping.below != 0, true);
  if (!kernels) return decline("flash attention cannot be compiled");
  const int64_t heads = int64_t{s.batches} * s.heads;
  int64_t rows = heads * s.queries;
  const Scratch scratch(s.device, rows * 8);
  if (!scratch.data) return decline("no memory for the sums");
  void *sums = scratch.data, *level = lse->data;
  Tensor g(grad), o(out), q(query), k(key), v(value), of_query(grad_query), of_key(grad_key), of_value(grad_value);
  Dropping drops = dropping;
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
