// Convolutions of one to three dimensions through cuDNN: float32 (TF32 when it is allowed), float64, float16 and
// bfloat16. Each of the three kernels is one of cuDNN's three; a transposed convolution takes another one of them.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "device.h"
#include "kernel.h"
#include "library.h"
#include "vendor.h"

namespace nv {
namespace {

using Handle = struct CudnnHandle*;
using Descriptor = struct CudnnDescriptor*;  // of a tensor, a filter or a convolution

enum { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_DOUBLE = 1, CUDNN_DATA_HALF = 2, CUDNN_DATA_BFLOAT16 = 9 };
enum { CUDNN_CROSS_CORRELATION = 1, CUDNN_TENSOR_NCHW = 0 };
enum { CUDNN_DEFAULT_MATH = 0, CUDNN_TENSOR_OP_MATH = 1, CUDNN_FMA_MATH = 3 };

// The same for all three kinds.
struct Performance {
  int algorithm, status;
  float time;
  size_t memory;
  int determinism, math;
  int reserved[3];
};

struct Dnn {
  int (*create)(Handle*);
  int (*set_stream)(Handle, CUstream);
  int (*tensor_create)(Descriptor*);
  int (*tensor_set)(Descriptor, int type, int dims, const int* sizes, const int* strides);
  int (*filter_create)(Descriptor*);
  int (*filter_set)(Descriptor, int type, int format, int dims, const int* sizes);
  int (*convolution_create)(Descriptor*);
  int (*convolution_set)(Descriptor, int dims, const int* padding, const int* stride, const int* dilation, int mode,
                         int compute);
  int (*convolution_groups)(Descriptor, int);
  int (*convolution_math)(Descriptor, int);
  int (*add)(Handle, const void*, Descriptor, const void*, const void*, Descriptor, void*);
  // Forward, backward for the input, backward for the weight.
  int (*find[3])(Handle, Descriptor, const void*, Descriptor, const void*, Descriptor, Descriptor, void*, int, int*,
                 Performance*, void*, size_t);
  int (*run[3])(Handle, const void*, Descriptor, const void*, Descriptor, const void*, Descriptor, int, void*, size_t,
                const void*, Descriptor, void*);
  bool found = false;
  std::string reason;
};

const Dnn& dnn() {
  static const Dnn& opened = *[] {
    auto* d = new Dnn{};
    const Symbol symbols[] = {{"cudnnCreate", reinterpret_cast<void**>(&d->create)},
                              {"cudnnSetStream", reinterpret_cast<void**>(&d->set_stream)},
                              {"cudnnCreateTensorDescriptor", reinterpret_cast<void**>(&d->tensor_create)},
                              {"cudnnSetTensorNdDescriptor", reinterpret_cast<void**>(&d->tensor_set)},
                              {"cudnnCreateFilterDescriptor", reinterpret_cast<void**>(&d->filter_create)},
                              {"cudnnSetFilterNdDescriptor", reinterpret_cast<void**>(&d->filter_set)},
                              {"cudnnCreateConvolutionDescriptor", reinterpret_cast<void**>(&d->convolution_create)},
                              {"cudnnSetConvolutionNdDescriptor", reinterpret_cast<void**>(&d->convolution_set)},
                              {"cudnnSetConvolutionGroupCount", reinterpret_cast<void**>(&d->convolution_groups)},
                              {"cudnnSetConvolutionMathType", reinterpret_cast<void**>(&d->convolution_math)},
                              {"cudnnAddTensor", reinterpret_cast<void**>(&d->add)},
                              {"cudnnFindConvolutionForwardAlgorithmEx", reinterpret_cast<void**>(&d->find[0])},
                              {"cudnnFindConvolutionBackwardDataAlgorithmEx", reinterpret_cast<void**>(&d->find[1])},
                              {"cudnnFindConvolutionBackwardFilterAlgorithmEx", reinterpret_cast<void**>(&d->find[2])},
                              {"cudnnConvolutionForward", reinterpret_cast<void**>(&d->run[0])},
                              {"cudnnConvolutionBackwardData", reinterpret_cast<void**>(&d->run[1])},
                              {"cudnnConvolutionBackwardFilter", reinterpret_cast<void**>(&d->run[2])},
                              {nullptr, nullptr}};
    static const char* const names[] = {"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so", nullptr};
    d->found = open_library(names, symbols, &d->reason);
    if (!d->found)
      host->log(HP_LOG_INFO, ("nv: convolutions go to portable kernels, cuDNN cannot be opened: " + d->reason).c_str());
    return d;
  }();
  return opened;
}

enum Kind { kForward = 0, kBackwardInput = 1, kBackwardWeight = 2 };

constexpr int kMostDims = 5;
struct Sizes {
  int32_t at[kMostDims];
};

struct Key {
  int32_t kind, type, math, device, dims, groups;
  Sizes x, w, y;
  int32_t padding[3], stride[3], dilation[3];
};
static_assert(sizeof(Key) == 30 * 4, "no padding");

struct Plan {
  Descriptor x = nullptr, w = nullptr, y = nullptr, convolution = nullptr, bias = nullptr;
  int algorithm = 0;
  size_t workspace = 0;
};

bool make_tensor(const Dnn& api, Descriptor* made, int type, int dims, const Sizes& sizes) {
  int strides[kMostDims], step = 1;
  for (int d = dims - 1; d >= 0; --d) strides[d] = step, step *= sizes.at[d];
  return api.tensor_create(made) == 0 && api.tensor_set(*made, type, dims, sizes.at, strides) == 0;
}

// The operands of one call, in the order of each kind's own name: two inputs and the output.
struct Operands {
  Descriptor left_desc, right_desc, out_desc;
  const void *left, *right;
  void* out;

  Operands(Kind kind, const Plan& plan, const DLTensor* x, const DLTensor* w, const DLTensor* y)
      : left_desc(kind == kBackwardInput ? plan.w : plan.x),
        right_desc(kind == kForward ? plan.w : plan.y),
        out_desc(kind == kForward         ? plan.y
                 : kind == kBackwardInput ? plan.x
                                          : plan.w),
        left((kind == kBackwardInput ? w : x)->data),
        right((kind == kForward ? w : y)->data),
        out((kind == kForward         ? y
             : kind == kBackwardInput ? x
                                      : w)
                ->data) {}
};

// Workspace for the trials, as much as there is.
class Trial {
 public:
  explicit Trial(int device) : device_(device) {
    for (bytes = size_t{1} << 30; bytes > 0; bytes /= 8) {
      if (host->scratch_allocate(device, bytes, &data) == HP_OK) return;
    }
    data = nullptr;
  }
  ~Trial() {
    if (data) host->scratch_free(device_, data);
  }
  Trial(const Trial&) = delete;

  void* data = nullptr;
  size_t bytes = 0;

 private:
  const int device_;
};

// The fastest way in the best of several trials, or null. The first trial of all does not count: the driver loads a
// kernel when it is first launched, which takes longer than a small convolution itself.
template <class Try>
const Performance* fastest(Performance (&best)[16], Try attempt) {
  constexpr int kTrials = 4;
  int known = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    Performance found[16];
    int count = 0;
    if (attempt(found, &count) != 0) return nullptr;
    for (const Performance* one = found; trial > 0 && one != found + count; ++one) {
      if (one->status != 0) continue;
      Performance* const same = std::find_if(best, best + known, [&](const Performance& other) {
        return other.algorithm == one->algorithm && other.math == one->math;
      });
      if (same == best + known) {
        if (known < 16) best[known++] = *one;
      } else if (one->time < same->time) {
        *same = *one;
      }
    }
  }
  return known == 0 ? nullptr : std::min_element(best, best + known, [](const Performance& a, const Performance& b) {
    return a.time < b.time;
  });
}

// Null where the library knows no way. The fastest algorithm is found by trying all of them, when a shape is first
// seen: what cuDNN guesses without trying is often several times slower.
std::unique_ptr<Plan> make_plan(const Dnn& api, Handle handle, const Key& key, const DLTensor* x, const DLTensor* w,
                                const DLTensor* y) {
  auto plan = std::make_unique<Plan>();
  Sizes bias{};
  for (int d = 0; d < key.dims; ++d) bias.at[d] = d == 1 ? key.y.at[1] : 1;
  if (key.kind == kBackwardInput) bias.at[1] = key.x.at[1];
  const int compute = key.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  if (!make_tensor(api, &plan->x, key.type, key.dims, key.x) ||
      !make_tensor(api, &plan->y, key.type, key.dims, key.y) ||
      !make_tensor(api, &plan->bias, key.type, key.dims, bias) || api.filter_create(&plan->w) != 0 ||
      api.filter_set(plan->w, key.type, CUDNN_TENSOR_NCHW, key.dims, key.w.at) != 0 ||
      api.convolution_create(&plan->convolution) != 0 ||
      api.convolution_set(plan->convolution, key.dims - 2, key.padding, key.stride, key.dilation,
                          CUDNN_CROSS_CORRELATION, compute) != 0 ||
      api.convolution_groups(plan->convolution, key.groups) != 0 ||
      api.convolution_math(plan->convolution, key.math) != 0)
    return nullptr;
  const Operands o(static_cast<Kind>(key.kind), *plan, x, w, y);
  const Trial trial(key.device);
  Performance best[16];
  const Performance* const found = fastest(best, [&](Performance* to, int* count) {
    return api.find[key.kind](handle, o.left_desc, o.left, o.right_desc, o.right, plan->convolution, o.out_desc, o.out,
                              16, count, to, trial.data, trial.bytes);
  });
  if (!found) return nullptr;
  plan->algorithm = found->algorithm;
  plan->workspace = found->memory;
  // An entry says for which kind of arithmetic it was measured.
  if (key.math != CUDNN_FMA_MATH) api.convolution_math(plan->convolution, found->math);
  return plan;
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

// Sizes of a tensor; a convolution of one dimension gets a second one, of size 1, in front.
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

void attributes_of(const int64_t* given, int dims, int32_t neutral, int32_t (&to)[3]) {
  const int extra = dims == 3;
  for (int32_t& value : to) value = 0;
  if (extra) to[0] = neutral;
  for (int d = 0; d < dims - 2; ++d) to[d + extra] = static_cast<int32_t>(given[d]);
}

thread_local Handle handles[kMaxDevices];

// y = x * w, or the gradient for x or w, by `kind`. The attributes stand at `first` in the call: stride, padding,
// dilation, transposed, output_padding, groups.
int run(const Call& call, int32_t first, Kind kind, const DLTensor* x, const DLTensor* w, const DLTensor* y,
        const DLTensor* bias) {
  const Dnn& api = dnn();
  if (!api.found) return decline("cuDNN is not installed");
  const DLTensor* const out = kind == kForward ? y : kind == kBackwardInput ? x : w;
  Key key{};
  key.kind = kind;
  key.type = type_of(out->dtype);
  if (key.type < 0 || x->ndim < 3 || x->ndim > kMostDims) return decline("cuDNN does not take this dtype or rank");
  for (const DLTensor* t : {x, w, y})
    if (type_of(t->dtype) != key.type || t->ndim != x->ndim)
      return decline("the operands must have one dtype and rank");
  key.dims = std::max(x->ndim, 4);
  key.device = out->device.device_id;
  key.groups = static_cast<int32_t>(call.integer(first + 5));
  key.math = key.type == CUDNN_DATA_FLOAT && !allow_tf32.load(std::memory_order_relaxed) ? CUDNN_FMA_MATH
             : key.type == CUDNN_DATA_DOUBLE                                             ? CUDNN_DEFAULT_MATH
                                                                                         : CUDNN_TENSOR_OP_MATH;
  if (!sizes_of(*x, &key.x) || !sizes_of(*w, &key.w) || !sizes_of(*y, &key.y)) return decline("sizes beyond 32 bits");
  attributes_of(call.list(first), x->ndim, 1, key.stride);
  attributes_of(call.list(first + 1), x->ndim, 0, key.padding);
  attributes_of(call.list(first + 2), x->ndim, 1, key.dilation);

  if (enter(key.device) != HP_OK) return decline("the device cannot be entered");
  Handle& handle = handles[key.device];
  if (!handle && api.create(&handle) != 0) return decline("cuDNN does not start");
  const HpStream stream = host->current_stream(key.device);
  api.set_stream(handle, reinterpret_cast<CUstream>(stream));
  thread_local Plans<Key, Plan> plans;
  const Plan* plan = plans.get(key, [&] { return make_plan(api, handle, key, x, w, y); });
  if (!plan) return decline("cuDNN has no kernel for this convolution");
  void* workspace = nullptr;
  if (plan->workspace > 0 && host->scratch_allocate(key.device, plan->workspace, &workspace) != HP_OK)
    return decline("no memory for cuDNN's workspace");

  const float one_f = 1, zero_f = 0;
  const double one_d = 1, zero_d = 0;
  const bool f64 = key.type == CUDNN_DATA_DOUBLE;
  const void *const one = f64 ? static_cast<const void*>(&one_d) : &one_f, *const zero =
                                                                               f64 ? static_cast<const void*>(&zero_d)
                                                                                   : &zero_f;
  const Operands o(kind, *plan, x, w, y);
  int status = api.run[kind](handle, one, o.left_desc, o.left, o.right_desc, o.right, plan->convolution,
                             plan->algorithm, workspace, plan->workspace, zero, o.out_desc, o.out);
  if (status == 0 && bias) status = api.add(handle, one, plan->bias, bias->data, one, o.out_desc, o.out);
  if (workspace) host->scratch_free(key.device, workspace);
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
