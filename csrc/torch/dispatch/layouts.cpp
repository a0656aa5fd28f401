// Sparse and nested tensors. torch's kernels that serve both the CPU and CUDA only call other operators, so they run on
// any device. Other kernels run in the CPU tier. Quantized tensors are rejected.
#include "dispatch/layouts.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/native/nested/NestedTensorUtils.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors.h>
#include <ATen/ops/zeros.h>
#include <dlfcn.h>

#include <cstring>
#include <shared_mutex>
#include <unordered_set>
#include <vector>

#include "runtime/adapter.h"

namespace hp::torch_adapter {
namespace {

using at::Tensor;

// An operator that torch implements for the CPU under a dispatch key.
struct LayoutKernel {
  c10::DispatchKey key;
  const char* name;
  bool shared;  // the same kernel serves CUDA
};
constexpr LayoutKernel kLayoutKernels[] = {
#include "generated/layout_kernels.inc"
};

// Operators whose shared kernel turned out to call code that torch has for the CPU and CUDA only.
class CpuOnly {
 public:
  bool contains(const Operator& op) const {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    return operators_.count(&op) != 0;
  }
  void insert(const Operator& op) {
    std::unique_lock<std::shared_mutex> lock(mutex_);
    operators_.insert(&op);
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_set<const Operator*> operators_;
};
CpuOnly& cpu_only() {
  static auto* operators = new CpuOnly;
  return *operators;
}

// Calls the kernel that torch registers for the CPU with arguments on the device.
template <c10::DispatchKey kKey>
void call_shared(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  const Operator& op = operator_of(handle);
  if (cpu_only().contains(op)) return cpu_tier(handle, stack);
  const size_t arguments = handle.schema().arguments().size();
  const size_t below = stack->size() - arguments;
  const std::vector<c10::IValue> saved(stack->end() - static_cast<ptrdiff_t>(arguments), stack->end());
  try {
    handle.redispatchBoxed(c10::DispatchKeySet(kKey), stack);
    return;
  } catch (const c10::Error& error) {
    if (std::strstr(error.what_without_backtrace(), "DispatchStub: missing kernel") == nullptr) throw;
  }
  cpu_only().insert(op);
  stack->resize(below);
  stack->insert(stack->end(), saved.begin(), saved.end());
  cpu_tier(handle, stack);
}

// Registered one by one: torch would prefer composite kernels, which are for dense tensors, to a fallback.
template <c10::DispatchKey kKey>
void register_kernels(torch::Library& m) {
  for (const LayoutKernel& kernel : kLayoutKernels) {
    if (kernel.key != kKey) continue;
    if (kernel.shared) {
      m.impl(kernel.name, torch::CppFunction::makeFromBoxedFunction<&call_shared<kKey>>());
    } else if (kKey != c10::DispatchKey::CPU) {
      m.impl(kernel.name, torch::CppFunction::makeFromBoxedFunction<&cpu_tier>());
    }
  }
}

void reject_quantized(const c10::OperatorHandle& handle, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, operator_of(handle).name, ": ", runtime().name(),
                              " has no quantized tensors: run this part on the CPU with .cpu()");
}

// Row-major positions of COO indices, one in each column.
Tensor flatten_indices(const Tensor& indices, at::IntArrayRef size) {
  Tensor flat = at::zeros({indices.size(1)}, indices.options());
  for (int64_t d = 0; d < indices.size(0); ++d) flat = flat.mul(size[d]).add(indices.select(0, d));
  return flat;
}

// torch checks the invariants of sparse tensors with a kernel of its own table, whose header it does not install.
struct FlattenIndicesStub : at::native::DispatchStub<decltype(&flatten_indices), FlattenIndicesStub> {};
void register_flatten_indices() {
  if (void* stub = dlsym(RTLD_DEFAULT, "_ZN2at6native20flatten_indices_stubE")) {
    static_cast<FlattenIndicesStub*>(stub)->set_privateuse1_dispatch_ptr(&flatten_indices);
  }
}

Tensor nested_from(const at::native::NestedTensorImpl& like, const Tensor& buffer) {
  return at::detail::make_tensor<at::native::NestedTensorImpl>(buffer, like.get_nested_sizes(),
                                                               like.get_nested_strides(), like.get_storage_offsets());
}

}  // namespace

Tensor copy_composed(const Tensor& tensor, c10::Device device) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  if (tensor.is_nested()) {
    const auto* impl = at::native::get_nested_tensor_impl(tensor);
    return nested_from(*impl, impl->get_unsafe_storage_as_tensor().to(device));
  }
  const at::TensorOptions options = tensor.options().device(device);
  if (tensor.is_sparse()) {
    const auto* impl = at::sparse::get_sparse_impl(tensor);
    return at::_sparse_coo_tensor_with_dims_and_tensors(impl->sparse_dim(), impl->dense_dim(), tensor.sizes(),
                                                        impl->indices().to(device), impl->values().to(device), options,
                                                        impl->coalesced());
  }
  TORCH_CHECK_NOT_IMPLEMENTED(at::sparse_csr::is_sparse_compressed(tensor), runtime().name(), " has no ",
                              tensor.layout(), " tensors: run this part on the CPU with .cpu()");
  const auto* impl = at::sparse_csr::get_sparse_csr_impl(tensor);
  return at::_sparse_compressed_tensor_unsafe(impl->compressed_indices().to(device), impl->plain_indices().to(device),
                                              impl->values().to(device), tensor.sizes(), options);
}

void assign_composed(const Tensor& target, const Tensor& source) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  if (target.is_nested()) {
    const auto* from = at::native::get_nested_tensor_impl(source);
    copy_tensor(at::native::get_nested_tensor_impl(target)->get_unsafe_storage_as_tensor(),
                from->get_unsafe_storage_as_tensor(), false);
    return;
  }
  const Tensor copy = copy_composed(source, target.device());
  if (target.is_sparse()) {
    const auto* from = at::sparse::get_sparse_impl(copy);
    auto* to = at::sparse::get_sparse_impl(target);
    to->raw_resize_(from->sparse_dim(), from->dense_dim(), copy.sizes());
    to->set_indices_and_values_unsafe(from->indices(), from->values());
    to->set_coalesced(from->coalesced());
    return;
  }
  const auto* from = at::sparse_csr::get_sparse_csr_impl(copy);
  at::sparse_csr::get_sparse_csr_impl(target)->set_member_tensors(from->compressed_indices(), from->plain_indices(),
                                                                  from->values(), copy.sizes());
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_tier>()); }
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_tier>()); }
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_tier>());
}
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&reject_quantized>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { register_kernels<c10::DispatchKey::CPU>(m); }
TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  register_kernels<c10::DispatchKey::SparseCPU>(m);
  register_flatten_indices();
}
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) { register_kernels<c10::DispatchKey::SparseCsrCPU>(m); }
TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) { register_kernels<c10::DispatchKey::NestedTensorCPU>(m); }

}  // namespace hp::torch_adapter
