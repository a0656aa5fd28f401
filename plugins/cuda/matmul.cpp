// matmul and addmm with cuBLASLt: float64, float32 (TF32 if allowed), float16 and bfloat16, optionally batched. One of
// the two matrix dimensions must be contiguous. A bias vector becomes an epilogue.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "device.h"
#include "dynamic_library.h"
#include "kernel_call.h"
#include "kernels.h"
#include "matmul.h"

namespace nv {
namespace {

using Handle = struct CublasLtHandle*;
using Descriptor = struct CublasLtDescriptor*;  // of an operation, a matrix layout or a preference

enum { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_64F = 70, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum { DESC_TRANSA = 3, DESC_TRANSB = 4, DESC_EPILOGUE = 7, DESC_BIAS_POINTER = 8 };
enum { EPILOGUE_BIAS = 4 };
enum { LAYOUT_BATCH_COUNT = 5, LAYOUT_STRIDED_BATCH_OFFSET = 6 };
enum { PREF_MAX_WORKSPACE_BYTES = 1, PREF_MIN_ALIGNMENT_A_BYTES = 5 };

struct Algorithm {
  uint64_t data[8];
};
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
};

struct CublasLt {
  int (*create)(Handle*);
  int (*desc_create)(Descriptor*, int compute, int scale);
  int (*desc_set)(Descriptor, int attribute, const void*, size_t);
  int (*layout_create)(Descriptor*, int type, uint64_t rows, uint64_t columns, int64_t ld);
  int (*layout_set)(Descriptor, int attribute, const void*, size_t);
  int (*preference_create)(Descriptor*);
  int (*preference_set)(Descriptor, int attribute, const void*, size_t);
  int (*preference_destroy)(Descriptor);
  int (*heuristic)(Handle, Descriptor, Descriptor, Descriptor, Descriptor, Descriptor, Descriptor, int,
                   HeuristicResult*, int*);
  int (*matmul)(Handle, Descriptor, const void*, const void*, Descriptor, const void*, Descriptor, const void*,
                const void*, Descriptor, void*, Descriptor, const Algorithm*, void*, size_t, CUstream);
  bool found = false;
  std::string reason;
};

const CublasLt& cublaslt() {
  static const CublasLt& opened = *[] {
    auto* b = new CublasLt{};
    const Symbol symbols[] = {{"cublasLtCreate", reinterpret_cast<void**>(&b->create)},
                              {"cublasLtMatmulDescCreate", reinterpret_cast<void**>(&b->desc_create)},
                              {"cublasLtMatmulDescSetAttribute", reinterpret_cast<void**>(&b->desc_set)},
                              {"cublasLtMatrixLayoutCreate", reinterpret_cast<void**>(&b->layout_create)},
                              {"cublasLtMatrixLayoutSetAttribute", reinterpret_cast<void**>(&b->layout_set)},
                              {"cublasLtMatmulPreferenceCreate", reinterpret_cast<void**>(&b->preference_create)},
                              {"cublasLtMatmulPreferenceSetAttribute", reinterpret_cast<void**>(&b->preference_set)},
                              {"cublasLtMatmulPreferenceDestroy", reinterpret_cast<void**>(&b->preference_destroy)},
                              {"cublasLtMatmulAlgoGetHeuristic", reinterpret_cast<void**>(&b->heuristic)},
                              {"cublasLtMatmul", reinterpret_cast<void**>(&b->matmul)},
                              {nullptr, nullptr}};
    static const char* const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", nullptr};
    b->found = open_library(names, symbols, &b->reason);
    if (!b->found)
      host->log(HP_LOG_INFO,
                ("nv: matrix products fall back to portable kernels: cuBLASLt cannot be opened: " + b->reason).c_str());
    return b;
  }();
  return opened;
}

// Workspace size, as NVIDIA recommends for Hopper. One workspace per thread, device and stream: the products of a
// stream run one at a time.
constexpr size_t kWorkspace = 32 << 20;

// ThreadState of one thread for one device.
struct ThreadState {
  Handle handle = nullptr;
  std::unordered_map<HpStream, void*> workspaces;

  void* workspace(int device, HpStream stream) {
    void*& found = workspaces[stream];
    if (!found) {
      CUdeviceptr made = 0;
      if (make_current(device) != HP_OK || driver.allocate(&made, kWorkspace) != CUDA_SUCCESS) return nullptr;
      found = reinterpret_cast<void*>(made);
    }
    return found;
  }
};
thread_local ThreadState states[kMaxDevices];

// An operand in cuBLASLt's terms. Its matrices are column-major, so a row-major matrix is its transpose.
struct Operand {
  int64_t ld = 0;
  bool transposed = false;
  explicit Operand(Matrix matrix) {
    ld = matrix.row_contiguous_stride();
    if (ld > 0) return;
    matrix.transpose();
    ld = matrix.row_contiguous_stride();
    transposed = true;
  }
};

struct Key {
  int64_t m, n, k, batch, ld_a, ld_b, ld_c, ld_out, step_a, step_b, step_c, step_out;
  int32_t type, out_type, compute, transposed_a, transposed_b, with_c, with_bias, device, alignment, unused;
};

struct Plan {
  Descriptor desc = nullptr, a = nullptr, b = nullptr, c = nullptr, out = nullptr;
  Algorithm algorithm;
  size_t workspace = 0;
};

bool make_layout(const CublasLt& api, Descriptor* made, const Key& key, int type, uint64_t rows, uint64_t columns,
                 int64_t ld, int64_t step) {
  if (api.layout_create(made, type, rows, columns, ld) != 0) return false;
  if (key.batch == 1) return true;
  const int32_t count = static_cast<int32_t>(key.batch);
  return api.layout_set(*made, LAYOUT_BATCH_COUNT, &count, sizeof count) == 0 &&
         api.layout_set(*made, LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step) == 0;
}

// Null if cuBLASLt supports no such product. Computes the transposed result: out' (n x m) = b' (n x k) a' (k x m).
std::unique_ptr<Plan> make_plan(const CublasLt& api, Handle handle, const Key& key, const void* bias) {
  auto plan = std::make_unique<Plan>();
  const int scale = key.type == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F;
  if (api.desc_create(&plan->desc, key.compute, scale) != 0) return nullptr;
  const int32_t b_transposed = key.transposed_b, a_transposed = key.transposed_a;
  api.desc_set(plan->desc, DESC_TRANSA, &b_transposed, sizeof b_transposed);
  api.desc_set(plan->desc, DESC_TRANSB, &a_transposed, sizeof a_transposed);
  if (key.with_bias) {
    const int32_t epilogue = EPILOGUE_BIAS;
    api.desc_set(plan->desc, DESC_EPILOGUE, &epilogue, sizeof epilogue);
    api.desc_set(plan->desc, DESC_BIAS_POINTER, &bias, sizeof bias);
  }
  const auto m = static_cast<uint64_t>(key.m), n = static_cast<uint64_t>(key.n), k = static_cast<uint64_t>(key.k);
  if (!make_layout(api, &plan->b, key, key.type, b_transposed ? k : n, b_transposed ? n : k, key.ld_b, key.step_b) ||
      !make_layout(api, &plan->a, key, key.type, a_transposed ? m : k, a_transposed ? k : m, key.ld_a, key.step_a) ||
      !make_layout(api, &plan->c, key, key.out_type, n, m, key.ld_c, key.step_c) ||
      !make_layout(api, &plan->out, key, key.out_type, n, m, key.ld_out, key.step_out))
    return nullptr;
  Descriptor preference = nullptr;
  if (api.preference_create(&preference) != 0) return nullptr;
  const uint64_t most = kWorkspace;
  api.preference_set(preference, PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
  const auto alignment = static_cast<uint32_t>(key.alignment);
  for (int i = 0; i < 4; ++i)
    api.preference_set(preference, PREF_MIN_ALIGNMENT_A_BYTES + i, &alignment, sizeof alignment);
  HeuristicResult best{};
  int count = 0;
  const int status =
      api.heuristic(handle, plan->desc, plan->b, plan->a, plan->c, plan->out, preference, 1, &best, &count);
  api.preference_destroy(preference);
  if (status != 0 || count == 0 || best.status != 0) return nullptr;
  plan->algorithm = best.algorithm;
  plan->workspace = best.workspace;
  return plan;
}

}  // namespace

int type_of(DLDataType dtype) {
  if (dtype.lanes != 1) return -1;
  if (dtype.code == kDLBfloat && dtype.bits == 16) return CUDA_R_16BF;
  if (dtype.code != kDLFloat) return -1;
  return dtype.bits == 64 ? CUDA_R_64F : dtype.bits == 32 ? CUDA_R_32F : dtype.bits == 16 ? CUDA_R_16F : -1;
}

bool has_cublaslt() { return cublaslt().found; }

int multiply(int device, int type, int out_type, Matrix out, Matrix self, Matrix a, Matrix b, double beta,
             double alpha) {
  const CublasLt& api = cublaslt();
  if (!api.found) return decline("cuBLASLt is not installed");
  Key key{};
  key.type = type;
  key.out_type = out_type;
  if (out.row_contiguous_stride() == 0) {
    // Column-major output: compute the transposed product instead.
    for (Matrix* m : {&out, &self, &a, &b}) m->transpose();
    std::swap(a, b);
  }
  const Operand left(a), right(b);
  key.ld_out = out.row_contiguous_stride();
  if (key.ld_out == 0 || left.ld == 0 || right.ld == 0) return decline("cuBLASLt does not support this layout");
  const void* bias = nullptr;
  key.ld_c = key.ld_out;
  key.step_c = out.batch_stride;
  if (self.data && beta != 0) {
    if (beta == 1 && self.row_stride == 0 && self.column_stride == 1 && (out.batch == 1 || self.batch_stride == 0) &&
        out.rows > 1) {
      bias = self.data;
      beta = 0;
    } else {
      key.ld_c = self.row_contiguous_stride();
      key.step_c = self.batch_stride;
      key.with_c = 1;
      if (key.ld_c == 0 || (out.batch > 1 && key.step_c == 0)) return decline("cuBLASLt does not support this bias");
    }
  } else {
    beta = 0;
  }
  key.m = out.rows;
  key.n = out.columns;
  key.k = a.columns;
  key.batch = out.batch;
  key.ld_a = left.ld;
  key.ld_b = right.ld;
  key.transposed_a = left.transposed;
  key.transposed_b = right.transposed;
  key.step_a = a.batch_stride;
  key.step_b = b.batch_stride;
  key.step_out = out.batch_stride;
  key.with_bias = bias != nullptr;
  key.device = device;
  key.compute = key.type == CUDA_R_64F                                                 ? CUBLAS_COMPUTE_64F
                : key.type == CUDA_R_32F && allow_tf32.load(std::memory_order_relaxed) ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                                       : CUBLAS_COMPUTE_32F;
  key.alignment = std::min({out.alignment(), a.alignment(), b.alignment(), key.with_c ? self.alignment() : 16});

  if (make_current(key.device) != HP_OK) return decline("the device's context cannot be made current");
  ThreadState& state = states[key.device];
  if (!state.handle && api.create(&state.handle) != 0) return decline("cuBLASLt cannot be initialized");
  thread_local PlanCache<Key, Plan> plans;
  const Plan* plan = plans.get(key, [&] { return make_plan(api, state.handle, key, bias); });
  if (!plan) return decline("cuBLASLt has no kernel for this product");
  const HpStream stream = host->current_stream(key.device);
  void* const workspace = plan->workspace > 0 ? state.workspace(key.device, stream) : nullptr;
  if (plan->workspace > 0 && !workspace) return decline("no memory for cuBLASLt's workspace");
  if (bias) api.desc_set(plan->desc, DESC_BIAS_POINTER, &bias, sizeof bias);
  const float factors[2] = {static_cast<float>(alpha), static_cast<float>(beta)};
  const double wide[2] = {alpha, beta};
  const bool f64 = key.type == CUDA_R_64F;
  const int status = api.matmul(state.handle, plan->desc, f64 ? static_cast<const void*>(wide) : factors, b.data,
                                plan->b, a.data, plan->a, f64 ? static_cast<const void*>(wide + 1) : factors + 1,
                                key.with_c ? self.data : out.data, plan->c, out.data, plan->out, &plan->algorithm,
                                workspace, plan->workspace, reinterpret_cast<CUstream>(stream));
  return status == 0 ? 0 : raise_error("cuBLASLt", "matrix product", status);
}

namespace {

int product(const DLTensor* out, const DLTensor* self, const DLTensor* a, const DLTensor* b, double beta,
            double alpha) {
  const int type = type_of(out->dtype);
  if (type < 0) return decline("cuBLASLt supports floating-point matrices only");
  for (const DLTensor* t : {self, a, b})
    if (t && (type_of(t->dtype) != type || t->ndim != out->ndim))
      return decline("the operands must have the same dtype and number of dimensions");
  return multiply(out->device.device_id, type, type, Matrix(out), Matrix(self), Matrix(a), Matrix(b), beta, alpha);
}

int matmul(const Call& call) { return product(call.tensor(0), nullptr, call.tensor(1), call.tensor(2), 0, 1); }

// out, self, mat1, mat2, beta, alpha
int addmm(const Call& call) {
  return product(call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(3), call.real(4), call.real(5));
}

}  // namespace
}  // namespace nv

NV_KERNEL(matmul, nv::matmul)
NV_KERNEL(addmm, nv::addmm)
