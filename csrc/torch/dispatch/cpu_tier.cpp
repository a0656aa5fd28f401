// The CPU tier: runs any operator with torch's CPU kernel, or with its decomposition on the CPU if there is none.
//
// Arguments are copied to the CPU and results back. Views, in-place and out= keep their semantics: written arguments
// are copied back, arguments that share storage share it on the CPU too, and write-only arguments are not read.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>

#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>

#include "core/recording/graph_capture.h"
#include "dispatch/decomposition.h"
#include "dispatch/layouts.h"
#include "dispatch/tool_intercept.h"
#include "dispatch/wider_call.h"
#include "dispatch/written_arguments.h"
#include "runtime/adapter.h"
#include "runtime/generator.h"
#include "runtime/python_warning.h"

namespace hp::torch_adapter {
namespace {

using at::Tensor;
using c10::IValue;

// Arguments that the operator writes although its schema does not declare it.
const std::vector<int>* hidden_writes(const std::string& name) {
  static const std::unordered_map<std::string, std::vector<int>> table = {
#include "generated/hidden_writes.inc"
  };
  auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

// The overload that runs on the CPU; for most operators the same one.
c10::OperatorHandle cpu_overload(const c10::OperatorHandle& handle, const std::string& name) {
  static const std::unordered_map<std::string, const char*> table = {
#include "generated/cpu_names.inc"
  };
  auto found = table.find(name);
  if (found == table.end()) return handle;
  return c10::Dispatcher::singleton().findSchemaOrThrow(found->second, "");
}

// For operators that draw from the CPU's default generator: seeds it for one call, then restores its state. Device
// randomness neither depends on the CPU's nor disturbs it.
class SeededDefaultGenerator {
 public:
  explicit SeededDefaultGenerator(uint64_t seed) : generator_(at::detail::getDefaultCPUGenerator()) {
    std::lock_guard<std::mutex> lock(generator_.mutex());
    saved_ = generator_.get_state();
    generator_.set_current_seed(seed);
  }
  ~SeededDefaultGenerator() {
    std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_state(saved_);
  }

 private:
  at::Generator generator_;
  Tensor saved_;
};

thread_local uint64_t calls_of_this_thread = 0;

struct Staged {
  Tensor device;
  Tensor cpu;
  bool written;
  bool read;
};

struct WarningList final : c10::WarningHandler {
  void process(const c10::Warning& warning) override { all.push_back(warning); }
  std::vector<c10::Warning> all;
};

class HostCall {
 public:
  HostCall(const c10::OperatorHandle& handle, Operator& op, torch::jit::Stack* stack)
      : handle_(handle), op_(op), schema_(handle.schema()), stack_(stack) {
    collect_tensors(torch::jit::last(*stack_, schema_.arguments().size()));
    for (const Staged& s : staged_) all_dense_ &= is_dense(s.device);
  }

  // Whether the CPU can run the operator. The computed kernel may be a composite one.
  bool has_kernel() const {
    return !all_dense_ || cpu_overload(handle_, op_.name) != handle_ ||
           handle_.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
  }

  void run() {
    const auto arguments = torch::jit::last(*stack_, schema_.arguments().size());
    stage();
    std::optional<SeededDefaultGenerator> seeded;
    torch::jit::Stack cpu_stack = cpu_arguments(arguments, seeded);
    call_in_any_dtype(&cpu_stack);
    seeded.reset();
    write_back();
    torch::jit::Stack results;
    for (size_t i = 0; i < cpu_stack.size(); ++i) results.push_back(result(cpu_stack[i], i));
    if (pending_) synchronize_or_leak(current_stream(*device_), sources_);
    torch::jit::drop(*stack_, schema_.arguments().size());
    for (IValue& value : results) stack_->push_back(std::move(value));
  }

 private:
  // Finds the tensors, their device, and which of them are written.
  void collect_tensors(at::ArrayRef<IValue> arguments) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const c10::Argument& formal = schema_.arguments()[i];
      const bool written = writes_argument(op_, schema_, i);
      const bool read = !formal.is_out();
      const IValue& value = arguments[i];
      if (value.isTensor()) {
        // torch gives these names to arguments that are on the CPU for every device.
        const bool on_host = formal.name().rfind("cpu_", 0) == 0;
        add_tensor(value.toTensor(), written, read, on_host);
      } else if (value.isTensorList()) {
        for (const Tensor& tensor : value.toTensorList()) add_tensor(tensor, written, read, false);
      } else if (value.isOptionalTensorList()) {
        // Lists of optional tensors are indices, which may be on the CPU, as for any device.
        for (const std::optional<Tensor>& tensor : value.toOptionalTensorList()) {
          if (!tensor) continue;
          check_index(*tensor, arguments[0]);
          add_tensor(*tensor, written, read, true);
        }
      } else if (value.isDevice() && value.toDevice().type() == kDeviceType) {
        set_device(value.toDevice());
      }
    }
    if (device_ == nullptr) device_ = &device_at(-1);
    TORCH_CHECK(!misplaced_.defined(),
                "Expected all tensors to be on the same device, but found at least two devices, ",
                c10::Device(kDeviceType, static_cast<c10::DeviceIndex>(device_->index)), " and cpu! (while running ",
                op_.name, ")");
  }

  // torch's error for an index on another device than the first argument.
  static void check_index(const Tensor& index, const IValue& self) {
    if (!on_device(index) || !self.isTensor()) return;
    const c10::Device device = self.toTensor().device();
    TORCH_CHECK(index.device() == device, "indices should be either on ", at::kCPU,
                " or on the same device as the indexed tensor (", device, ")");
  }

  void set_device(c10::Device device) {
    Device& chosen = device_at(device.index());
    if (device_ == nullptr) device_ = &chosen;
    TORCH_CHECK(device_ == &chosen, "Expected all tensors to be on the same device, but found at least two devices, ",
                c10::Device(kDeviceType, static_cast<c10::DeviceIndex>(device_->index)), " and ", device,
                "! (while running ", op_.name, ")");
  }

  void add_tensor(const Tensor& tensor, bool written, bool read, bool may_be_on_host) {
    if (!tensor.defined()) return;
    if (!on_device(tensor)) {
      // As on CUDA: CPU scalars mix with device tensors, larger or written CPU tensors do not.
      if (tensor.is_cpu() && (written || tensor.dim() > 0) && !may_be_on_host) misplaced_ = tensor;
      return;
    }
    set_device(tensor.device());
    auto [entry, inserted] = index_.emplace(tensor.unsafeGetTensorImpl(), staged_.size());
    if (inserted) {
      staged_.push_back({tensor, {}, written, read});
    } else {
      staged_[entry->second].written |= written;
      staged_[entry->second].read |= read;
    }
  }

  // Creates the CPU side of every tensor and waits for the copies.
  void stage() {
    std::unordered_map<c10::StorageImpl*, int> uses;
    std::unordered_set<c10::StorageImpl*> written_storages;
    for (const Staged& s : staged_) {
      if (!is_dense(s.device)) continue;
      ++uses[s.device.storage().unsafeGetStorageImpl()];
      if (s.written) written_storages.insert(s.device.storage().unsafeGetStorageImpl());
    }
    std::unordered_map<c10::StorageImpl*, Tensor> shared;  // CPU copies of storages that several arguments share
    Stream& stream = current_stream(*device_);
    bool queued = false;
    for (Staged& s : staged_) {
      if (!is_dense(s.device)) {
        s.cpu = copy_composed(s.device, c10::kCPU);
        continue;
      }
      c10::StorageImpl* storage = s.device.storage().unsafeGetStorageImpl();
      if (uses[storage] > 1 && written_storages.count(storage) != 0) {
        Tensor& bytes = shared[storage];
        if (!bytes.defined()) {
          bytes = at::detail::empty_cpu({static_cast<int64_t>(storage->nbytes())}, at::kByte, false, std::nullopt);
          device_->copy_to_host(bytes.data_ptr(), storage->data(), storage->nbytes(), stream);
          copied(storage->nbytes());
        }
        s.cpu = at::detail::empty_cpu({0}, s.device.scalar_type(), false, std::nullopt);
        s.cpu.set_(bytes.storage(), s.device.storage_offset(), s.device.sizes(), s.device.strides());
        s.cpu._set_conj(s.device.is_conj());
        s.cpu._set_neg(s.device.is_neg());
        queued = true;
      } else if (s.read) {
        s.cpu = queue_copy_to_cpu(s.device);
        copied(s.device.nbytes());
        queued = true;
      } else if (at::has_internal_overlap(s.device) == at::MemOverlap::Yes) {
        s.cpu = at::detail::empty_strided_cpu(s.device.sizes(), s.device.strides(), s.device.scalar_type());
      } else {
        // Contiguous: some CPU kernels write to any output as if it were.
        s.cpu = at::detail::empty_cpu(s.device.sizes(), s.device.scalar_type(), false, std::nullopt);
      }
      if (s.device.unsafeGetTensorImpl()->is_wrapped_number()) s.cpu.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    if (queued) synchronize_or_leak(stream, staged_);
  }

  void copied(size_t bytes) { op_.copied_bytes.fetch_add(bytes, std::memory_order_relaxed); }

  Tensor cpu_of(const Tensor& tensor) const {
    if (!on_device(tensor)) return tensor;
    return staged_[index_.at(tensor.unsafeGetTensorImpl())].cpu;
  }

  torch::jit::Stack cpu_arguments(at::ArrayRef<IValue> arguments, std::optional<SeededDefaultGenerator>& seeded) {
    torch::jit::Stack cpu;
    cpu.reserve(arguments.size());
    bool takes_generator = false;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const IValue& value = arguments[i];
      const c10::TypePtr& type = schema_.arguments()[i].type();
      if (value.isTensor()) {
        cpu.emplace_back(value.toTensor().defined() ? cpu_of(value.toTensor()) : Tensor());
      } else if (value.isTensorList()) {
        c10::List<Tensor> list;
        for (const Tensor& tensor : value.toTensorList()) list.push_back(cpu_of(tensor));
        cpu.emplace_back(std::move(list));
      } else if (value.isOptionalTensorList()) {
        c10::List<std::optional<Tensor>> list;
        for (const std::optional<Tensor>& tensor : value.toOptionalTensorList()) {
          list.push_back(tensor && tensor->defined() ? std::make_optional(cpu_of(*tensor)) : std::nullopt);
        }
        cpu.emplace_back(std::move(list));
      } else if (value.isDevice() && value.toDevice().type() == kDeviceType) {
        cpu.emplace_back(c10::Device(c10::kCPU));
      } else if (type->isSubtypeOf(c10::OptionalType::create(c10::GeneratorType::get()))) {
        takes_generator = true;
        const auto generator = value.isNone() ? std::nullopt : std::make_optional(value.toGenerator());
        cpu.emplace_back(
            at::detail::createCPUGenerator(draw_seed(generator, static_cast<c10::DeviceIndex>(device_->index))));
      } else {
        cpu.push_back(value);
      }
    }
    if (!takes_generator && handle_.hasTag(at::Tag::nondeterministic_seeded)) {
      seeded.emplace(draw_seed(std::nullopt, static_cast<c10::DeviceIndex>(device_->index)));
    }
    return cpu;
  }

  // Other devices may support a dtype that the CPU kernel lacks.
  void call_in_any_dtype(torch::jit::Stack* cpu_stack) {
    const torch::jit::Stack arguments = *cpu_stack;
    try {
      call_cpu_kernel(cpu_stack);
    } catch (const c10::NotImplementedError&) {
      *cpu_stack = arguments;
      const auto run = [this](torch::jit::Stack* wide) { call_cpu_kernel(wide); };
      bool served = false;
      try {
        served = call_wider(op_, handle_, cpu_stack, run);
      } catch (const c10::NotImplementedError&) {  // names a dtype that the caller does not know
      }
      if (!served) throw;
    }
  }

  // The functional form of some operators calls the out= form with an output that the CPU kernel resizes and then
  // restores. The resize warning is dropped then, since the caller did nothing wrong.
  void call_cpu_kernel(torch::jit::Stack* cpu_stack) {
    const c10::DispatchKeySet cpu(c10::DispatchKey::CPU);
    const bool has_output = std::any_of(staged_.begin(), staged_.end(), [](const Staged& s) { return !s.read; });
    const c10::OperatorHandle other = cpu_overload(handle_, op_.name);
    if (other != handle_) {
      *cpu_stack = by_name(other.schema(), std::move(*cpu_stack));
      return other.redispatchBoxed(cpu, cpu_stack);
    }
    if (!all_dense_) {
      const at::AutoDispatchBelowADInplaceOrView guard;
      return handle_.callBoxed(cpu_stack);
    }
    if (!has_kernel()) return decompose_on_cpu(handle_, op_, cpu_stack);
    if (!has_output) return handle_.redispatchBoxed(cpu, cpu_stack);
    WarningList warnings;
    {
      c10::WarningUtils::WarningHandlerGuard guard(&warnings);
      handle_.redispatchBoxed(cpu, cpu_stack);
    }
    const bool same_size = std::all_of(staged_.begin(), staged_.end(),
                                       [](const Staged& s) { return s.read || s.device.sizes() == s.cpu.sizes(); });
    for (const c10::Warning& warning : warnings.all) {
      if (same_size && warning.msg().find("An output with one or more elements was resized") != std::string::npos)
        continue;
      c10::warn(warning);
    }
  }

  // Reorders the arguments by name for another schema; arguments that only `other` has are None.
  torch::jit::Stack by_name(const c10::FunctionSchema& other, torch::jit::Stack arguments) const {
    torch::jit::Stack ordered;
    for (const c10::Argument& argument : other.arguments()) {
      const auto position = schema_.argumentIndexWithName(argument.name());
      ordered.push_back(position ? std::move(arguments[*position]) : IValue());
    }
    return ordered;
  }

  void write_back() {
    for (const Staged& s : staged_) {
      if (!s.written) continue;
      if (!is_dense(s.device)) {
        assign_composed(s.device, s.cpu);
        continue;
      }
      copied(s.cpu.nbytes());
      if (s.device.sizes() != s.cpu.sizes()) {
        s.device.resize_(s.cpu.sizes());
        if (s.cpu.is_non_overlapping_and_dense()) {
          s.device.unsafeGetTensorImpl()->set_sizes_and_strides(s.cpu.sizes(), s.cpu.strides());
        }
      }
      if (at::has_internal_overlap(s.device) == at::MemOverlap::Yes) {
        // The CPU kernel allows this because its memory has the same layout.
        device_->copy_to_device(s.device.data_ptr(), s.cpu.const_data_ptr(), span_bytes(s.cpu),
                                current_stream(*device_));
        sources_.push_back(s.cpu);
        pending_ = true;
        continue;
      }
      copy_tensor(s.device, s.cpu, false);
    }
  }

  IValue result(const IValue& value, size_t position) {
    if (value.isTensor()) return result(value.toTensor(), position);
    if (value.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor& tensor : value.toTensorList()) list.push_back(result(tensor, position));
      return list;
    }
    return value;
  }

  Tensor result(const Tensor& cpu, size_t position) {
    if (!cpu.defined()) return cpu;
    for (const Staged& s : staged_) {
      if (s.cpu.is_same(cpu)) return s.device;
    }
    const c10::AliasInfo* alias = schema_.returns()[position].alias_info();
    TORCH_CHECK(alias == nullptr || alias->isWrite(), op_.name, " returns a view of its argument, which cannot cross ",
                "from the CPU to ", runtime().name(), ": call .cpu() on the argument first");
    TORCH_CHECK(!cpu.is_quantized(), op_.name, " returns a quantized tensor, which ", runtime().name(),
                " cannot hold: call .cpu() on the argument first");
    if (!is_dense(cpu)) return copy_composed(cpu, {kDeviceType, static_cast<c10::DeviceIndex>(device_->index)});
    const bool dense = cpu.is_non_overlapping_and_dense();
    const Tensor source = dense ? cpu : cpu.contiguous();
    Tensor device = empty_strided(source.sizes(), source.strides(), source.scalar_type(), device_->index);
    device._set_conj(source.is_conj());
    device._set_neg(source.is_neg());
    queue_copy_from_cpu(device, source);
    copied(source.nbytes());
    if (source.numel() != 0) pending_ = true;
    sources_.push_back(source);
    return device;
  }

  const c10::OperatorHandle& handle_;
  Operator& op_;
  const c10::FunctionSchema& schema_;
  torch::jit::Stack* stack_;
  Device* device_ = nullptr;
  Tensor misplaced_;  // a CPU tensor that must be on the device
  std::vector<Staged> staged_;
  std::unordered_map<c10::TensorImpl*, size_t> index_;
  std::vector<Tensor> sources_;  // host memory that queued copies still read
  bool pending_ = false;
  bool all_dense_ = true;
};

}  // namespace

bool writes_argument(const Operator& op, const c10::FunctionSchema& schema, size_t i) {
  const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
  if (alias != nullptr && alias->isWrite()) return true;
  const std::vector<int>* hidden = hidden_writes(op.name);
  return hidden != nullptr && std::find(hidden->begin(), hidden->end(), static_cast<int>(i)) != hidden->end();
}

Operator& operator_of(const c10::OperatorHandle& handle) {
  static std::shared_mutex mutex;
  static auto* cache = new std::unordered_map<const c10::FunctionSchema*, Operator*>;
  const c10::FunctionSchema* key = &handle.schema();
  {
    std::shared_lock<std::shared_mutex> lock(mutex);
    auto found = cache->find(key);
    if (found != cache->end()) return *found->second;
  }
  Operator& op = Operator::intern(c10::toString(handle.operator_name()));
  std::unique_lock<std::shared_mutex> lock(mutex);
  cache->emplace(key, &op);
  return op;
}

uint64_t cpu_tier_calls() { return calls_of_this_thread; }

void cpu_tier(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  Operator& op = operator_of(handle);
  if (C10_UNLIKELY(!op.allows(Tier::kCpu))) {
    TORCH_CHECK_NOT_IMPLEMENTED(false, op.name, " would run on the CPU, which a fallback rule forbids",
                                python_location());
  }
  if (GraphCapture* capture = current_stream(device_at(-1)).capture()) capture->refuse(op.name, "it runs on the CPU");
  ++calls_of_this_thread;
  HostCall call(handle, op, stack);
  TORCH_CHECK_NOT_IMPLEMENTED(call.has_kernel() || has_decomposition(op), op.name, " has neither a kernel for ",
                              runtime().name(), " nor one for the CPU: register one for ",
                              "PrivateUse1 or CPU (torch.library.impl), or use another operator");
  op.count(Tier::kCpu);
  // No warning if a rule denies the kernels.
  if (op.allows_kernels() && !op.warned.exchange(true)) {
    warn_in_python(op.name + " runs on the CPU: " + runtime().name() +
                   " has no kernel for this call (warns once per operator; hardpoint.counters() counts calls)");
  }
  OperatorScope scope(op);
  const CpuTierTimer cost(op);
  if (C10_UNLIKELY(observed())) notify({op, Tier::kCpu, true, stack});
  call.run();
  if (C10_UNLIKELY(observed())) notify({op, Tier::kCpu, false, stack});
}

}  // namespace hp::torch_adapter
