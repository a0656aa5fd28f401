// 1-D to 3-D convolutions with cuDNN: float32 (TF32 if allowed), float64, float16 and bfloat16. The three kernels map
// to cuDNN's forward, backward data and backward filter; transposed convolutions swap them.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cudnn.h"
#include "device.h"
#include "kernel_call.h"
#include "kernels.h"
#include "scratch.h"

namespace nv {
namespace {

enum Kind { kForward = 0, kBackwardInput = 1, kBackwardWeight = 2 };

constexpr int kMaxDims = 5;
struct Sizes {
  int32_t at[kMaxDims];
};

// The number of groups follows from the sizes.
struct Key {
  int32_t kind, type;
  int16_t tf32, channels_last;
  int32_t alignment, device, dims;
  Sizes x, w, y;
  int32_t padding[3], stride[3], dilation[3];
};
static_assert(sizeof(Key) == 30 * 4, "no padding");

// Ids of the operands in the graph.
enum Operand : int64_t { kX = 1, kW = 2, kY = 3 };

struct Pointers {
  void *x, *w, *y;
};

// ---- Operation graph of a convolution

// Strides of a dense tensor.
template <class Integer>
void strides_of(const Key& key, const Sizes& sizes, Integer (&strides)[kMaxDims]) {
  const int dims = key.dims;
  Integer step = 1;
  for (int k = 0; k < dims; ++k) {
    const int channels_last = k == 0 ? 1 : k == dims - 1 ? 0 : dims - k;
    const int d = key.channels_last ? channels_last : dims - 1 - k;
    strides[d] = step;
    step *= sizes.at[d];
  }
}

Descriptor tensor_of(const Key& key, Operand number, const Sizes& sizes) {
  int64_t dims[kMaxDims], strides[kMaxDims];
  std::copy_n(sizes.at, key.dims, dims);
  strides_of(key, sizes, strides);
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, int64_t{number});
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, key.type);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, int64_t{key.alignment});
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, key.dims, dims);
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, key.dims, strides);
  tensor.finish();
  return tensor;
}

Descriptor attributes_of(const Key& key) {
  const int64_t spatial = key.dims - 2;
  const int compute = key.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  int64_t padding[3], stride[3], dilation[3];
  std::copy_n(key.padding, spatial, padding);
  std::copy_n(key.stride, spatial, stride);
  std::copy_n(key.dilation, spatial, dilation);
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, spatial);
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, compute);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, int{CUDNN_CROSS_CORRELATION});
  convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, spatial, padding);
  convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, spatial, padding);
  convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, spatial, stride);
  convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, spatial, dilation);
  convolution.finish();
  return convolution;
}

constexpr CudnnDescriptorType kOperations[] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                               CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                               CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR};
// The first attribute (alpha) of each operation, followed by beta, convolution, w, x, y.
constexpr int kAlpha[] = {700, 706, 712};

// Owns all descriptors: cuDNN does not document that it copies them.
struct Graph {
  Graph(CudnnHandle handle, const Key& key)
      : convolution(attributes_of(key)),
        w(tensor_of(key, kW, key.w)),
        x(tensor_of(key, kX, key.x)),
        y(tensor_of(key, kY, key.y)),
        operation(kOperations[key.kind]),
        whole(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    const auto name = [&](int offset) { return static_cast<CudnnAttribute>(kAlpha[key.kind] + offset); };
    if (key.type == CUDNN_DATA_DOUBLE) {
      operation.set(name(0), CUDNN_TYPE_DOUBLE, 1.0);
      operation.set(name(1), CUDNN_TYPE_DOUBLE, 0.0);
    } else {
      operation.set(name(0), CUDNN_TYPE_FLOAT, 1.0f);
      operation.set(name(1), CUDNN_TYPE_FLOAT, 0.0f);
    }
    operation.set(name(2), convolution);
    operation.set(name(3), w);
    operation.set(name(4), x);
    operation.set(name(5), y);
    operation.finish();
    whole.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
    whole.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
    whole.finish();
  }

  Descriptor convolution, w, x, y, operation, whole;
};

// ---- Choice of the engine

struct Plan {
  std::unique_ptr<const Graph> graph;
  Descriptor configuration, execution;
  int64_t workspace = 0;
  CudnnTensor out = nullptr, bias = nullptr;
};

// Engine configurations proposed by cuDNN, best first.
std::vector<Descriptor> engine_configs(const Descriptor& graph, int mode) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  std::vector<Descriptor> found;
  if (!heuristics.finish()) return found;
  const int64_t all = heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<void*> raw;
  for (int64_t k = 0; k < all; ++k) {
    found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(found.back().get());
  }
  const int64_t given =
      all <= 0 ? 0 : heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, all, raw.data());
  while (static_cast<int64_t>(found.size()) > std::max<int64_t>(given, 0)) found.pop_back();
  return found;
}

// Whether an engine has the requested precision: engines choose TF32 by themselves.
bool has_required_precision(const Key& key, const Descriptor& configuration) {
  if (key.type != CUDNN_DATA_FLOAT) return true;
  const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  void* raw = engine.get();
  int notes[16];
  if (configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw) != 1) return false;
  const int64_t count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 16, notes);
  return std::none_of(notes, notes + std::max<int64_t>(count, 0), [&](int note) {
    return note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS || (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && !key.tf32);
  });
}

int execute(CudnnHandle handle, const Plan& plan, const Pointers& pointers, void* workspace) {
  constexpr int64_t kNumbers[] = {kX, kW, kY};
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, kNumbers);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, &pointers);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  return pack.finish() ? cudnn().execute(handle, plan.execution.get(), pack.get()) : -1;
}

// Measures run times with events on a stream.
class StreamTimer {
 public:
  explicit StreamTimer(CUstream stream) : stream_(stream) {
    good_ = driver.event_create(&start_, 0) == CUDA_SUCCESS && driver.event_create(&end_, 0) == CUDA_SUCCESS;
  }
  ~StreamTimer() {
    if (start_) driver.event_destroy(start_);
    if (end_) driver.event_destroy(end_);
  }
  StreamTimer(const StreamTimer&) = delete;

  // Milliseconds of the fastest of three runs, after a warm-up run; negative on failure.
  template <class Run>
  float best(Run run) {
    float least = -1;
    for (int k = 0; k < 4; ++k) {
      float took = 0;
      if (!good_ || driver.event_record(start_, stream_) != CUDA_SUCCESS || run() != 0 ||
          driver.event_record(end_, stream_) != CUDA_SUCCESS || driver.event_synchronize(end_) != CUDA_SUCCESS ||
          driver.event_elapsed(&took, start_, end_) != CUDA_SUCCESS) {
        return -1;
      }
      if (k > 0 && (least < 0 || took < least)) least = took;
    }
    return least;
  }

 private:
  const CUstream stream_;
  CUevent start_ = nullptr, end_ = nullptr;
  bool good_ = false;
};

// The plan of a configuration; null if the engine rejects it or needs too much workspace.
std::unique_ptr<Plan> make_execution_plan(CudnnHandle handle, Descriptor configuration) {
  constexpr int64_t kMaxWorkspace = int64_t{1} << 30;
  Descriptor execution(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  execution.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
  execution.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  int64_t workspace = 0;
  if (!execution.finish() ||
      execution.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &workspace) != 1 ||
      workspace > kMaxWorkspace) {
    return nullptr;
  }
  return std::unique_ptr<Plan>(new Plan{nullptr, std::move(configuration), std::move(execution), workspace});
}

// Measures the first few configurations and returns the fastest. A later one must be clearly faster, so that the choice
// is stable between runs. Null if cuDNN supports none.
std::unique_ptr<Plan> find_fastest_plan(CudnnHandle handle, const Key& key, const Pointers& pointers, CUstream stream) {
  constexpr int kMaxTrials = 5;
  constexpr float kMaxTimeRatio = 0.93f;
  auto graph = std::make_unique<const Graph>(handle, key);
  std::unique_ptr<Plan> best;
  float least = 0;
  int tried = 0;
  StreamTimer timer(stream);
  for (const int mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (best || !graph->whole.good()) break;
    for (Descriptor& configuration : engine_configs(graph->whole, mode)) {
      if (tried == kMaxTrials) break;
      if (!has_required_precision(key, configuration)) continue;
      std::unique_ptr<Plan> plan = make_execution_plan(handle, std::move(configuration));
      if (!plan) continue;
      const Scratch workspace(key.device, plan->workspace);
      if (plan->workspace > 0 && !workspace.data) continue;
      const float took = timer.best([&] { return execute(handle, *plan, pointers, workspace.data); });
      if (took < 0) continue;
      ++tried;
      if (!best || took < least * kMaxTimeRatio) {
        best = std::move(plan);
        least = took;
      }
    }
  }
  if (best) best->graph = std::move(graph);
  return best;
}

bool make_tensor(CudnnTensor* made, const Key& key, const Sizes& sizes) {
  int strides[kMaxDims];
  strides_of(key, sizes, strides);
  return cudnn().tensor_create(made) == 0 && cudnn().tensor_set(*made, key.type, key.dims, sizes.at, strides) == 0;
}

std::unique_ptr<Plan> make_plan(CudnnHandle handle, const Key& key, const Pointers& pointers, CUstream stream) {
  std::unique_ptr<Plan> plan = find_fastest_plan(handle, key, pointers, stream);
  if (!plan) return nullptr;
  const Sizes& out = key.kind == kForward ? key.y : key.kind == kBackwardInput ? key.x : key.w;
  Sizes bias{};
  for (int d = 0; d < key.dims; ++d) bias.at[d] = d == 1 ? out.at[1] : 1;
  const bool made = make_tensor(&plan->out, key, out) && make_tensor(&plan->bias, key, bias);
  return made ? std::move(plan) : nullptr;
}

int type_of(DLDataType dtype) {
  if (dtype.lanes != 1) return -1;
  if (dtype.code == kDLBfloat && dtype.bits == 16) return CUDNN_DATA_BFLOAT16;
  if (dtype.code != kDLFloat) return -1;
  return dtype.bits == 64   ? CUDNN_DATA_DOUBLE
         : dtype.bits == 32 ? CUDNN_DATA_FLOAT
         : dtype.bits == 16 ? CUDNN_DATA_HALF
                            : -1;
}

// The sizes of a tensor. A 1-D convolution becomes a 2-D one with a leading dimension of size 1.
bool sizes_of(const DLTensor& tensor, Sizes* sizes) {
  const int extra = tensor.ndim == 3;
  *sizes = {};
  int64_t all = 1;
  for (int d = 0; d < tensor.ndim; ++d) {
    if (tensor.shape[d] == 0 || tensor.shape[d] > INT32_MAX) return false;
    all *= tensor.shape[d];
    sizes->at[d < 2 ? d : d + extra] = static_cast<int32_t>(tensor.shape[d]);
  }
  if (extra) sizes->at[2] = 1;
  return all <= INT32_MAX;
}

// Hardpoint passes tensors that are all contiguous or all channels last; some, of one channel or one pixel, are both.
bool is_contiguous(const DLTensor& tensor) {
  int64_t expected = 1;
  for (int d = tensor.ndim - 1; d >= 0; --d) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != expected) return false;
    expected *= tensor.shape[d];
  }
  return true;
}

void attributes_of(const int64_t* given, int dims, int32_t neutral, int32_t (&to)[3]) {
  const int extra = dims == 3;
  for (int32_t& value : to) value = 0;
  if (extra) to[0] = neutral;
  for (int d = 0; d < dims - 2; ++d) to[d + extra] = static_cast<int32_t>(given[d]);
}

thread_local CudnnHandle handles[kMaxDevices];

// y = x * w, or the gradient of x or w, depending on `kind`. The attributes start at argument `first`: stride, padding,
// dilation, transposed, output_padding, groups.
int run(const Call& call, int32_t first, Kind kind, const DLTensor* x, const DLTensor* w, const DLTensor* y,
        const DLTensor* bias) {
  const Cudnn& api = cudnn();
  if (!api.found) return decline("cuDNN is not installed");
  const DLTensor* const out = kind == kForward ? y : kind == kBackwardInput ? x : w;
  Key key{};
  key.kind = kind;
  key.type = type_of(out->dtype);
  if (key.type < 0 || x->ndim < 3 || x->ndim > kMaxDims) return decline("cuDNN does not support this dtype or rank");
  key.alignment = 16;
  for (const DLTensor* t : {x, w, y}) {
    if (type_of(t->dtype) != key.type || t->ndim != x->ndim)
      return decline("the operands must have the same dtype and rank");
    if (reinterpret_cast<uintptr_t>(t->data) % 16 != 0) key.alignment = t->dtype.bits / 8;
    if (!is_contiguous(*t)) key.channels_last = 1;
  }
  key.dims = std::max(x->ndim, 4);
  key.device = out->device.device_id;
  key.tf32 = key.type == CUDNN_DATA_FLOAT && allow_tf32.load(std::memory_order_relaxed);
  if (!sizes_of(*x, &key.x) || !sizes_of(*w, &key.w) || !sizes_of(*y, &key.y)) return decline("sizes exceed 32 bits");
  attributes_of(call.list(first), x->ndim, 1, key.stride);
  attributes_of(call.list(first + 1), x->ndim, 0, key.padding);
  attributes_of(call.list(first + 2), x->ndim, 1, key.dilation);

  if (make_current(key.device) != HP_OK) return decline("the device's context cannot be made current");
  CudnnHandle& handle = handles[key.device];
  if (!handle && api.create(&handle) != 0) return decline("cuDNN cannot be initialized");
  const auto stream = reinterpret_cast<CUstream>(host->current_stream(key.device));
  api.set_stream(handle, stream);
  const Pointers pointers{x->data, w->data, y->data};
  // Never destroyed: a thread may exit after the driver has shut down.
  thread_local auto& plans = *new PlanCache<Key, Plan>;
  const Plan* plan = plans.get(key, [&] { return make_plan(handle, key, pointers, stream); });
  if (!plan) return decline("cuDNN has no kernel for this convolution");
  const Scratch workspace(key.device, plan->workspace);
  if (plan->workspace > 0 && !workspace.data) return decline("no memory for cuDNN's workspace");
  int status = execute(handle, *plan, pointers, workspace.data);
  if (status == 0 && bias) {
    const float one_f = 1;
    const double one_d = 1;
    const void* const one = key.type == CUDNN_DATA_DOUBLE ? static_cast<const void*>(&one_d) : &one_f;
    status = api.add(handle, one, plan->bias, bias->data, one, plan->out, out->data);
  }
  return status == 0 ? 0 : raise_error("cuDNN", "convolution", status);
}

// out, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
int convolution(const Call& call) {
  const DLTensor *out = call.tensor(0), *input = call.tensor(1), *weight = call.tensor(2), *bias = call.tensor(3);
  return call.integer(7) ? run(call, 4, kBackwardInput, out, weight, input, bias)
                         : run(call, 4, kForward, input, weight, out, bias);
}

// out, grad_output, weight, stride, padding, dilation, transposed, output_padding, groups
int backward_input(const Call& call) {
  const DLTensor *out = call.tensor(0), *grad = call.tensor(1), *weight = call.tensor(2);
  return call.integer(6) ? run(call, 3, kForward, grad, weight, out, nullptr)
                         : run(call, 3, kBackwardInput, out, weight, grad, nullptr);
}

// out, grad_output, input, stride, padding, dilation, transposed, output_padding, groups
int backward_weight(const Call& call) {
  const DLTensor *out = call.tensor(0), *grad = call.tensor(1), *input = call.tensor(2);
  return call.integer(6) ? run(call, 3, kBackwardWeight, grad, out, input, nullptr)
                         : run(call, 3, kBackwardWeight, input, out, grad, nullptr);
}

}  // namespace
}  // namespace nv

NV_KERNEL(convolution, nv::convolution)
NV_KERNEL(convolution_backward_input, nv::backward_input)
NV_KERNEL(convolution_backward_weight, nv::backward_weight)
