// Launches the kernels of flash.inc.
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

const char kSource[] =
#include "attention_common.inc"
#include "flash.inc"
    ;
constexpr int64_t kRows = 64;  // ROWS there
constexpr unsigned kThreads = 128;

struct Kernels {
  CUfunction forward = nullptr, sums = nullptr, queries = nullptr, keys = nullptr;
};

bool load(int device, const std::string& options, std::initializer_list<std::pair<const char*, CUfunction*>> wanted) {
  std::string binary;
  CUmodule module = nullptr;
  if (compile_source(capability(device), kSource, options.c_str(), &binary) != HP_OK ||
      driver.module_load(&module, binary.data()) != CUDA_SUCCESS) {
    return false;
  }
  for (const auto& [name, function] : wanted) {
    if (driver.module_find(function, module, name) != CUDA_SUCCESS) return false;
  }
  return true;
}

// Compiled when they are first asked for; null where that fails, which is told once.
const Kernels* kernels_of(int device, bool half, bool wide, bool backward) {
  struct Made {
    std::atomic<bool> ready{false};
    bool works = false;
    Kernels kernels;
  };
  static Made all[kMaxDevices][2][2][2];
  static std::mutex mutex;
  Made& made = all[device][half][wide][backward];
  if (!made.ready.load(std::memory_order_acquire)) {
    std::lock_guard<std::mutex> lock(mutex);
    if (!made.ready.load(std::memory_order_relaxed)) {
      const std::string options = std::string("-DDTYPE=") + (half ? "1" : "2") + " -DDIM=" + (wide ? "128" : "64") +
                                  (backward ? " -DBACKWARD" : " -DFORWARD");
      Kernels& k = made.kernels;
      made.works = backward ? load(device, options,
                                   {{"flash_sums", &k.sums}, {"flash_queries", &k.queries}, {"flash_keys", &k.keys}})
                            : load(device, options, {{"flash", &k.forward}});
      if (!made.works) host->log(HP_LOG_WARNING, "nv: flash attention does not compile, and is not used");
      made.ready.store(true, std::memory_order_release);
    }
  }
  return made.works ? &made.kernels : nullptr;
}

bool aligned(const DLTensor* tensor) { return reinterpret_cast<uintptr_t>(tensor->data) % 16 == 0; }

// The sizes as the kernels take them.
struct Sizes {
  explicit Sizes(const Flash& given)
      : device(given.query->device.device_id),
        heads(given.query->shape[0] * given.query->shape[1]),
        share(given.query->shape[1] / given.key->shape[1]),
        queries(given.query->shape[2]),
        keys(given.key->shape[2]),
        dim(static_cast<int>(given.query->shape[3])),
        causal(given.causal != 0),
        half(type_of(given.query->dtype) == CUDA_R_16F),
        scale(static_cast<float>(given.scale)) {}
  int64_t groups(int64_t batch, int64_t rows) const { return batch * ((rows + kRows - 1) / kRows); }
  int launch(CUfunction function, int64_t groups, void** arguments) const {
    const auto stream = reinterpret_cast<CUstream>(host->current_stream(device));
    const CUresult result =
        driver.launch(function, static_cast<unsigned>(groups), 1, 1, kThreads, 1, 1, 0, stream, arguments, nullptr);
    return result == CUDA_SUCCESS ? 0 : raise_error("flash attention", "launching a kernel", result);
  }

  int device;
  int64_t heads, share, queries, keys;
  int dim, causal;
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
  const Sizes sizes(*this);
  if (capability(sizes.device) < 80 || sizes.heads * (sizes.queries + sizes.keys) >= INT32_MAX) return false;
  for (const DLTensor* tensor : others) {
    if (!aligned(tensor)) return false;
  }
  return aligned(query) && aligned(key) && aligned(value);
}

int Flash::forward(const DLTensor* out, const DLTensor* lse, const Dropping& dropping) const {
  Sizes s(*this);
  if (enter(s.device) != HP_OK) return decline("the device cannot be entered");
  const Kernels* kernels = kernels_of(s.device, s.half, s.dim > 64, false);
  if (!kernels) return decline("flash attention does not compile");
  void *to = out->data, *sums = lse->data, *q = query->data, *k = key->data, *v = value->data;
  Dropping drops = dropping;
  void* arguments[] = {&to, &sums, &q, &k, &v, &s.share, &s.queries, &s.keys, &s.dim, &s.causal, &s.scale, &drops};
  return s.launch(kernels->forward, s.groups(s.heads, s.queries), arguments);
}

int Flash::backward(const DLTensor* grad_query, const DLTensor* grad_key, const DLTensor* grad_value,
                    const DLTensor* grad, const DLTensor* out, const DLTensor* lse, const Dropping& dropping) const {
  Sizes s(*this);
  if (enter(s.device) != HP_OK) return decline("the device cannot be entered");
  const Kernels* kernels = kernels_of(s.device, s.half, s.dim > 64, true);
  if (!kernels) return decline("flash attention does not compile");
  int64_t rows = s.heads * s.queries;
  const Scratch scratch(s.device, rows * 8);
  if (!scratch.data) return decline("no memory for the sums");
  void *sums = scratch.data, *level = lse->data, *g = grad->data, *o = out->data;
  void* first[] = {&sums, &level, &g, &o, &rows, &s.dim};
  if (int error = s.launch(kernels->sums, (rows + 3) / 4, first)) return error;
  void *of_query = grad_query->data, *of_key = grad_key->data, *of_value = grad_value->data;
  void *q = query->data, *k = key->data, *v = value->data;
  Dropping drops = dropping;
  void* second[] = {&of_query,  &g,      &q,     &k,        &v,       &sums, &s.share,
                    &s.queries, &s.keys, &s.dim, &s.causal, &s.scale, &drops};
  if (int error = s.launch(kernels->queries, s.groups(s.heads, s.queries), second)) return error;
  void* third[] = {&of_key,  &of_value,  &g,      &q,     &k,        &v,       &sums,
                   &s.share, &s.queries, &s.keys, &s.dim, &s.causal, &s.scale, &drops};
  return s.launch(kernels->keys, s.groups(s.heads / s.share, s.keys), third);
}

}  // namespace nv
