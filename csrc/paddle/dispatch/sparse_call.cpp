#include "dispatch/sparse_call.h"

#include <paddle/phi/backends/context_pool.h>
#include <paddle/phi/core/kernel_context.h>
#include <paddle/phi/core/sparse_coo_tensor.h>
#include <paddle/phi/core/sparse_csr_tensor.h>

#include <optional>
#include <unordered_map>

#include "core/tracing/host_events.h"
#include "dispatch/sparse_gradients.h"
#include "python/python_location.h"

namespace hp::paddle_adapter {
namespace {

using phi::SparseCooTensor;
using phi::SparseCsrTensor;

using phi::SelectedRows;

std::unordered_map<std::string, SparseFunction>& functions() {
  static auto* table = new std::unordered_map<std::string, SparseFunction>;
  return *table;
}

std::optional<TensorKind> input_kind(std::type_index type) {
  if (type == typeid(const DenseTensor&)) return TensorKind::kDense;
  if (type == typeid(const paddle::optional<DenseTensor>&)) return TensorKind::kOptionalDense;
  if (type == typeid(const SparseCooTensor&)) return TensorKind::kCoo;
  if (type == typeid(const SparseCsrTensor&)) return TensorKind::kCsr;
  if (type == typeid(const SelectedRows&)) return TensorKind::kRows;
  if (type == typeid(const paddle::optional<SelectedRows>&)) return TensorKind::kOptionalRows;
  if (type == typeid(const std::vector<const SelectedRows*>&)) return TensorKind::kRowsList;
  if (type == typeid(const std::vector<const phi::TensorBase*>&)) return TensorKind::kTensorList;
  return std::nullopt;
}

std::optional<TensorKind> output_kind(std::type_index type) {
  if (type == typeid(DenseTensor*)) return TensorKind::kDense;
  if (type == typeid(SparseCooTensor*)) return TensorKind::kCoo;
  if (type == typeid(SparseCsrTensor*)) return TensorKind::kCsr;
  if (type == typeid(SelectedRows*)) return TensorKind::kRows;
  return std::nullopt;
}

// Host copies of a call's tensors. Pending copies may access them until the stream is synchronized.
class SparseStaging {
 public:
  SparseStaging(Call& call, const SparseKernel& sparse, const SparseArguments& arguments)
      : call_(call),
        sparse_(sparse),
        arguments_(arguments),
        stream_(current_stream(call.device)),
        host_(phi::DeviceContextPool::Instance().Get(phi::CPUPlace())) {}

  void run() {
    phi::KernelContext context(host_);
    for (size_t i = 0; i < sparse_.inputs.size(); ++i) {
      paddle::small_vector<const phi::TensorBase*> copies;
      for (const phi::TensorBase* input : arguments_.inputs[i]) {
        copies.push_back(input == nullptr ? nullptr : copy_input(*input, sparse_.inputs[i]));
      }
      is_list(sparse_.inputs[i]) ? context.EmplaceBackInputs(copies) : context.EmplaceBackInput(copies.front());
    }
    if (copied_bytes_ != 0) stream_.synchronize();
    for (int i = 0; i < call_.num_attributes(); ++i) context.EmplaceBackAttr(call_.attribute(i));
    std::vector<phi::TensorBase*> results;
    for (size_t i = 0; i < sparse_.outputs.size(); ++i) {
      const phi::TensorBase* output = arguments_.outputs[i];
      results.push_back(output == nullptr ? nullptr : make_output(*output, sparse_.outputs[i]));
      context.EmplaceBackOutput(results.back());
    }
    call_.kernel.cpu(&context);
    const size_t read_bytes = copied_bytes_;
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i] != nullptr) copy_output(*arguments_.outputs[i], *results[i], sparse_.outputs[i]);
    }
    if (copied_bytes_ != read_bytes) stream_.synchronize();
    call_.kernel.op->copied_bytes.fetch_add(copied_bytes_, std::memory_order_relaxed);
  }

 private:
  DenseTensor to_host(const DenseTensor& from) {
    if (from.has_allocation() && !on_device(from)) return from;
    DenseTensor to;
    const phi::DenseTensorMeta meta(from.dtype(), from.dims(), from.layout());
    if (!meta.valid()) return to;
    to.set_meta(meta);
    // In a backward pass, memory of size 0 stands for an input of which only the shape is used.
    if (!from.has_allocation() || (!from.initialized() && from.numel() != 0)) return to;
    void* data = host_->Alloc(&to, from.dtype());
    const size_t bytes = static_cast<size_t>(from.numel()) * phi::SizeOf(from.dtype());
    if (bytes != 0) call_.device.copy_to_host(data, from.data(), bytes, stream_);
    copied_bytes_ += bytes;
    return to;
  }

  void to_device(DenseTensor& to, const DenseTensor& from) {
    if (!from.has_allocation()) return;
    to.Resize(from.dims());
    void* data = call_.context.Alloc(&to, from.dtype());
    const size_t bytes = static_cast<size_t>(from.numel()) * phi::SizeOf(from.dtype());
    if (bytes != 0) call_.device.copy_to_device(data, from.data(), bytes, stream_);
    copied_bytes_ += bytes;
  }

  phi::TensorBase* copy_input(const phi::TensorBase& input, TensorKind kind) {
    phi::TensorBase* copy = make_copy(input, kind);
    copies_.emplace_back(&input, copy);
    return copy;
  }

  phi::TensorBase* make_copy(const phi::TensorBase& input, TensorKind kind) {
    if (SelectedRows::classof(&input)) {
      const auto& from = static_cast<const SelectedRows&>(input);
      auto& to = rows_.emplace_back(from.rows(), from.height());
      *to.mutable_value() = to_host(from.value());
      to.SyncIndex();
      return &to;
    }
    if (kind == TensorKind::kCoo) {
      const auto& from = static_cast<const SparseCooTensor&>(input);
      auto& to = coo_.emplace_back();
      to.SetMember(to_host(from.indices()), to_host(from.values()), from.meta(), from.coalesced());
      to.SetIndicesDict(from.GetIndicesDict());  // a convolution's: on the host, see copy_output
      return &to;
    }
    if (kind == TensorKind::kCsr) {
      const auto& from = static_cast<const SparseCsrTensor&>(input);
      auto& to = csr_.emplace_back();
      to.SetMember(to_host(from.crows()), to_host(from.cols()), to_host(from.values()), from.meta());
      return &to;
    }
    return &dense_.emplace_back(to_host(static_cast<const DenseTensor&>(input)));
  }

  // Without memory, with what InferMeta has set. A tensor that the kernel updates in place is the copy of the input.
  phi::TensorBase* make_output(const phi::TensorBase& output, TensorKind kind) {
    for (const auto& [input, copy] : copies_) {
      const bool updated = input == &output && (kind == TensorKind::kDense || kind == TensorKind::kRows);
      if (updated || (kind == TensorKind::kDense && share_memory(*input, output))) return copy;
    }
    if (kind == TensorKind::kRows) {
      const auto& from = static_cast<const SelectedRows&>(output);
      auto& to = rows_.emplace_back(from.rows(), from.height());
      to.mutable_value()->Resize(from.dims());
      to.mutable_value()->set_type(from.dtype());
      return &to;
    }
    if (kind == TensorKind::kCoo) {
      auto& to = coo_.emplace_back();
      to.set_meta(static_cast<const SparseCooTensor&>(output).meta());
      return &to;
    }
    if (kind == TensorKind::kCsr) {
      auto& to = csr_.emplace_back();
      to.set_meta(static_cast<const SparseCsrTensor&>(output).meta());
      return &to;
    }
    auto& to = dense_.emplace_back();
    to.Resize(output.dims());
    to.set_type(output.dtype());
    return &to;
  }

  // Whether an input is the same elements as a dense output.
  static bool share_memory(const phi::TensorBase& input, const phi::TensorBase& output) {
    if (!DenseTensor::classof(&input)) return false;
    const auto &from = static_cast<const DenseTensor&>(input), &to = static_cast<const DenseTensor&>(output);
    return from.initialized() && to.initialized() && from.dims() == to.dims() && from.dtype() == to.dtype() &&
           from.data() == to.data();
  }

  void copy_output(phi::TensorBase& output, const phi::TensorBase& result, TensorKind kind) {
    if (kind == TensorKind::kRows) {
      auto& to = static_cast<SelectedRows&>(output);
      const auto& from = static_cast<const SelectedRows&>(result);
      to.set_height(from.height());
      if (to.rows() != from.rows()) {
        to.set_rows(from.rows());
        to.SyncIndex();
      }
      // If there are several of these gradients, Paddle adds them on the CPU, wherever they are.
      if (in_backward() && from.value().has_allocation()) {
        *to.mutable_value() = from.value();
        return;
      }
      return to_device(*to.mutable_value(), from.value());
    }
    if (kind == TensorKind::kCoo) {
      auto& to = static_cast<SparseCooTensor&>(output);
      const auto& from = static_cast<const SparseCooTensor&>(result);
      to.set_meta(from.meta());
      to.SetCoalesced(from.coalesced());
      to.SetIndicesDict(from.GetIndicesDict());
      to_device(*to.mutable_indices(), from.indices());
      to_device(*to.mutable_values(), from.values());
      add_sparse_gradient(to);
    } else if (kind == TensorKind::kCsr) {
      auto& to = static_cast<SparseCsrTensor&>(output);
      const auto& from = static_cast<const SparseCsrTensor&>(result);
      to.set_meta(from.meta());
      to_device(*to.mutable_crows(), from.crows());
      to_device(*to.mutable_cols(), from.cols());
      to_device(*to.mutable_values(), from.values());
    } else {
      to_device(static_cast<DenseTensor&>(output), static_cast<const DenseTensor&>(result));
    }
  }

  Call& call_;
  const SparseKernel& sparse_;
  const SparseArguments& arguments_;
  Stream& stream_;
  phi::DeviceContext* const host_;
  std::deque<DenseTensor> dense_;
  std::deque<SparseCooTensor> coo_;
  std::deque<SparseCsrTensor> csr_;
  std::deque<SelectedRows> rows_;
  std::vector<std::pair<const phi::TensorBase*, phi::TensorBase*>> copies_;  // of the inputs
  size_t copied_bytes_ = 0;
};

}  // namespace

SparseRegistration::SparseRegistration(const char* phi_name, SparseFunction function) {
  functions().emplace(phi_name, function);
}

bool read_sparse_signature(const phi::KernelArgsDef& definition, SparseKernel& sparse) {
  bool any = false;
  for (const auto& input : definition.input_defs()) {
    const auto kind = input_kind(input.type_index);
    if (!kind) return false;
    sparse.inputs.push_back(*kind);
    any = any || (*kind != TensorKind::kDense && *kind != TensorKind::kOptionalDense);
  }
  for (const auto& output : definition.output_defs()) {
    const auto kind = output_kind(output.type_index);
    if (!kind) return false;
    sparse.outputs.push_back(*kind);
    any = any || *kind != TensorKind::kDense;
  }
  for (const auto& attribute : definition.attribute_defs()) {
    if (attribute.type_index == phi::AttributeType::UNDEFINED) return false;
    sparse.kernel.attributes.push_back(attribute.type_index);
  }
  const auto found = functions().find(sparse.kernel.name);
  if (found != functions().end()) sparse.function = found->second;
  return any && sparse.kernel.attributes.size() <= Call::kMaxAttributes;
}

void run_sparse(Call& call, const SparseKernel& sparse, const SparseArguments& arguments) {
  Operator& op = *call.kernel.op;
  // Without portable kernels, a function may find out after some steps that the device lacks one.
  if (sparse.function != nullptr && op.allows(Tier::kDecomposition) && call.device.plugin.compiler.compile != nullptr) {
    const CompositionScope traced(op);
    if (sparse.function(call, arguments)) return;
  }
  if (!op.allows(Tier::kCpu)) {
    throw Error(HP_NOT_SUPPORTED, "it would run on the CPU, which a fallback rule forbids" + python_location());
  }
  OperatorScope scope(op);
  op.count(Tier::kCpu);
  const CpuTierTimer cost(op);
  if (observed()) notify({op, Tier::kCpu, true, nullptr});
  auto staging = std::make_unique<SparseStaging>(call, sparse, arguments);
  try {
    staging->run();
  } catch (const Error& error) {
    if (error.status == HP_TIMEOUT) staging.release();  // leak it: queued copies may still access its memory
    throw;
  }
  if (observed()) notify({op, Tier::kCpu, false, nullptr});
}

}  // namespace hp::paddle_adapter
