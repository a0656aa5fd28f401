// Registers every dense or sparse CPU kernel of Paddle for the plug-in's device, and dispatches its calls. They come
// from a stub (dygraph) or a KernelContext (graph), and go to the function that the kernel is mapped to, else to the
// CPU tier.
#include <paddle/phi/common/tensor_ref.h>
#include <paddle/phi/core/custom_kernel.h>
#include <paddle/phi/core/enforce.h>
#include <paddle/phi/core/kernel_context.h>
#include <paddle/phi/core/sparse_coo_tensor.h>
#include <paddle/phi/core/sparse_csr_tensor.h>

#include <mutex>
#include <set>

#include "core/runtime/device_fault.h"
#include "core/tracing/host_events.h"
#include "dispatch/call.h"
#include "dispatch/call_stubs.h"
#include "dispatch/sparse_call.h"
#include "dispatch/sparse_gradients.h"
#include "dispatch/tool_intercept.h"
#include "runtime/borrowed_memory.h"

namespace hp::paddle_adapter {

// Fills in a call's arguments.
class CallReader {
 public:
  // From a C++ call. The caller has read the first argument, the context.
  static void read(Call& call, ArgumentReader& reader);
  static void read(Call& call, phi::KernelContext& context);
  static void read(Call& call, const SparseKernel& sparse, SparseArguments& arguments, ArgumentReader& reader);
  static void read(Call& call, const SparseKernel& sparse, SparseArguments& arguments, phi::KernelContext& context);
  // Gives the outputs the dtypes that Paddle's own kernel would allocate.
  static void set_output_dtypes(Call& call);
  // The same for a call from dygraph, whose shape functions know which outputs of a 16-bit call stay in float32.
  static void set_inferred_output_dtypes(Call& call);

 private:
  static void read_attribute(Call& call, int i, ArgumentReader& reader);
  static void read_attribute(Call& call, int i, const phi::Attribute& attribute);
  static void set_output_dtype(const Call& call, int i);
  static bool has_single_input(const Call& call);  // an input in single precision
};

namespace {

using Tensors = std::vector<const DenseTensor*>;
using Outputs = std::vector<DenseTensor*>;

// Indexed by stub: each is in one of them.
std::array<PhiKernel*, kNumStubs> kernels{};
std::array<SparseKernel*, kNumStubs> sparse_kernels{};
int num_kernels = 0;

bool overwrites_input(const Call& call) {
  for (int i = 0; i < call.num_outputs(); ++i) {
    for (const DenseTensor* output : call.outputs(i)) {
      if (output == nullptr || !output->initialized()) continue;
      for (int k = 0; k < call.num_inputs(); ++k) {
        for (const DenseTensor* input : call.inputs(k)) {
          if (input != nullptr && input->initialized() && input->Holder() == output->Holder()) return true;
        }
      }
    }
  }
  return false;
}

// Without portable kernels, a composition may fail after some steps because the device lacks a kernel. The CPU tier
// then needs the original inputs.
bool can_compose(const Call& call) {
  if (!call.kernel.op->allows(Tier::kDecomposition)) return false;
  return call.device.plugin.compiler.compile != nullptr || !overwrites_input(call);
}

// Whether all outputs are empty. Sizes that Paddle's shape function does not know are negative.
bool computes_nothing(const Call& call) {
  bool any = false;
  for (int i = 0; i < call.num_outputs(); ++i) {
    for (const DenseTensor* output : call.outputs(i)) {
      if (output == nullptr) continue;
      const auto& dims = output->dims();
      if (dims.size() < 1 || output->numel() != 0) return false;
      for (int d = 0; d < dims.size(); ++d) {
        if (dims[d] < 0) return false;
      }
      any = true;
    }
  }
  return any;
}

void allocate_outputs(Call& call) {
  for (int i = 0; i < call.num_outputs(); ++i) {
    for (DenseTensor* output : call.outputs(i)) {
      if (output == nullptr) continue;
      phi::DataType dtype = call.kernel.output_dtypes[i];
      if (dtype == phi::DataType::UNDEFINED) dtype = output->dtype();
      if (dtype == phi::DataType::UNDEFINED) dtype = call.kernel.dtype;
      // Memory is lent to the call that follows, so this is that call.
      if (!take_lent_memory(*output, dtype, call.context.GetPlace())) call.context.Alloc(output, dtype);
    }
  }
}

void serve(Call& call) {
  const Mapping* mapping = call.kernel.mapping;
  if (mapping != nullptr && computes_nothing(call)) return allocate_outputs(call);
  if (mapping != nullptr && (mapping->standard != nullptr || can_compose(call))) {
    const CompositionScope traced(*call.kernel.op);
    if (mapping->function(call)) return;
  }
  cpu_tier(call);
}

bool is_gradient(const std::string& name) {
  static const std::string suffix = "_grad";
  return name.size() > suffix.size() && name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
}

template <class Serve>
void guarded(const Call& call, Serve&& serve_call) {
  StreamScope scope(stream_of(call.context));
  try {
    serve_call();
  } catch (const OutOfMemory& error) {
    PADDLE_THROW(common::errors::ResourceExhausted("%s: %s", call.kernel.op->name, error.what()));
  } catch (const IndexOutOfRange& error) {
    PADDLE_THROW(common::errors::OutOfRange("%s", error.what()));
  } catch (const Error& error) {
    PADDLE_THROW(common::errors::External("%s: %s", call.kernel.op->name, error.what()));
  }
}

void run(Call& call) {
  guarded(call, [&] {
    const Operator& op = *call.kernel.op;
    if (op.intercepted() && should_intercept(op)) return intercept(call, &serve);
    serve(call);
  });
}

// `source`: the C++ call or the KernelContext.
template <class Source>
void run_sparse_call(const SparseKernel& sparse, const phi::DeviceContext& context, Source& source) {
  Call call(sparse.kernel, context);
  SparseArguments arguments;
  CallReader::read(call, sparse, arguments, source);
  guarded(call, [&] { run_sparse(call, sparse, arguments); });
}

bool read_signature(const phi::KernelArgsDef& definition, PhiKernel& kernel) {
  for (const auto& input : definition.input_defs()) {
    const std::type_index type = input.type_index;
    if (type == typeid(const DenseTensor&)) {
      kernel.inputs.push_back(InputKind::kDense);
    } else if (type == typeid(const paddle::optional<DenseTensor>&)) {
      kernel.inputs.push_back(InputKind::kOptional);
    } else if (type == typeid(const Tensors&)) {
      kernel.inputs.push_back(InputKind::kList);
    } else if (type == typeid(const paddle::optional<Tensors>&)) {
      kernel.inputs.push_back(InputKind::kOptionalList);
    } else {
      return false;
    }
  }
  for (const auto& attribute : definition.attribute_defs()) {
    if (attribute.type_index == phi::AttributeType::UNDEFINED) return false;
    kernel.attributes.push_back(attribute.type_index);
  }
  for (const auto& output : definition.output_defs()) {
    const std::type_index type = output.type_index;
    if (type != typeid(DenseTensor*) && type != typeid(Outputs)) return false;
    kernel.outputs.push_back(type == typeid(Outputs));
  }
  return kernel.inputs.size() <= Call::kMaxInputs && kernel.attributes.size() <= Call::kMaxAttributes &&
         kernel.outputs.size() <= Call::kMaxOutputs;
}

// The dtype that a kernel gives to each output; UNDEFINED if it depends on the arguments.
std::vector<phi::DataType> read_output_dtypes(const PhiKernel& kernel) {
  static const std::map<std::string, std::set<size_t>> float32_outputs = {
#include "generated/float32_outputs.inc"
  };
  std::vector<phi::DataType> dtypes;
  for (const auto& output : kernel.cpu.args_def().output_defs()) {
    phi::DataType dtype = output.dtype;
    // A kernel that replaces a 16-bit one: its own dtype becomes the call's.
    if (kernel.widened && dtype == phi::DataType::FLOAT32) dtype = kernel.dtype;
    // Only the first output of a kernel without a CPU counterpart is known to have the kernel's dtype.
    if (!kernel.cpu.IsValid() && !dtypes.empty()) dtype = phi::DataType::UNDEFINED;
    const auto found = float32_outputs.find(kernel.name);
    if (is_narrow(dtype) && found != float32_outputs.end() && found->second.count(dtypes.size()) != 0) {
      dtype = phi::DataType::FLOAT32;
    }
    dtypes.push_back(dtype);
  }
  return dtypes;
}

// Indices into `kernels`; -1 for a kernel that is not supported.
std::map<std::pair<std::string, phi::DataType>, int>& kernel_indices() {
  static auto* indices = new std::map<std::pair<std::string, phi::DataType>, int>;
  return *indices;
}

// The index of a kernel for one dtype, shared by all plug-ins and added on first use. -1 if the kernel takes tensors
// that are neither dense nor sparse, or if no stub is left.
int kernel_index(const std::string& name, phi::DataType dtype, const phi::Kernel& cpu, bool widened) {
  const auto [entry, added] = kernel_indices().emplace(std::make_pair(name, dtype), -1);
  if (!added) return entry->second;
  if (num_kernels == kNumStubs || cpu.GetKernelRegisteredType() != phi::KernelRegisteredType::FUNCTION) return -1;
  const auto describe = [&](PhiKernel& kernel) {
    kernel.name = name;
    kernel.dtype = dtype;
    kernel.cpu = cpu;
    kernel.widened = widened;
    kernel.op = &Operator::intern("phi::" + name);
  };
  auto kernel = std::make_unique<PhiKernel>();
  if (!read_signature(cpu.args_def(), *kernel)) {
    auto sparse = std::make_unique<SparseKernel>();
    describe(sparse->kernel);
    if (widened || !read_sparse_signature(cpu.args_def(), *sparse)) return -1;
    entry->second = num_kernels;
    sparse_kernels[num_kernels] = sparse.release();
    return num_kernels++;
  }
  describe(*kernel);
  kernel->output_dtypes = read_output_dtypes(*kernel);
  kernel->mapping = find_mapping(name);
  entry->second = num_kernels;
  kernels[num_kernels] = kernel.release();
  return num_kernels++;
}

// Whether not to register the kernel: it is in the table's LEFT_TO_PADDLE, or Paddle has it for any custom device.
bool left_to_paddle(const std::string& name, const phi::KernelKeyMap& variants) {
  static const std::set<std::string> listed = {
#include "generated/left_to_paddle.inc"
  };
  if (listed.count(name) != 0) return true;
  // Paddle's STRIDED kernels make views, and only in eager mode: a graph needs the others.
  for (const auto& [key, kernel] : variants) {
    if (key.backend() == phi::Backend::CUSTOM && key.layout() != phi::DataLayout::STRIDED) return true;
  }
  return false;
}

}  // namespace

void run_boxed(const PhiKernel& kernel, phi::KernelContext& context) {
  Call call(kernel, context.GetDeviceContext<phi::DeviceContext>());
  CallReader::read(call, context);
  run(call);
}

const PhiKernel* find_kernel(const std::string& name, phi::DataType dtype) {
  const auto found = kernel_indices().find(std::make_pair(name, dtype));
  return found == kernel_indices().end() || found->second < 0 ? nullptr : kernels[found->second];
}

namespace {

// Stands in for a missing CPU kernel: has its arguments, but no function.
phi::Kernel placeholder_kernel(const Signature& signature, phi::DataType dtype) {
  phi::Kernel kernel;
  phi::KernelArgsDef& definition = *kernel.mutable_args_def();
  for (const InputKind kind : signature.inputs) {
    const std::type_index type =
        kind == InputKind::kOptional ? typeid(const paddle::optional<DenseTensor>&) : typeid(const DenseTensor&);
    definition.AppendInput(phi::Backend::CPU, phi::DataLayout::ALL_LAYOUT, dtype, type);
  }
  for (const phi::AttributeType type : signature.attributes) definition.AppendAttribute(type);
  for (int i = 0; i < signature.outputs; ++i) {
    definition.AppendOutput(phi::Backend::CPU, phi::DataLayout::ALL_LAYOUT, dtype, typeid(DenseTensor*));
  }
  return kernel;
}

class Registrar {
 public:
  explicit Registrar(Runtime& runtime) : backend_(paddle::experimental::StringToBackend(runtime.name().c_str())) {}

  void add(const std::string& name, phi::DataType dtype, const phi::Kernel& cpu, bool widened = false) {
    const int index = kernel_index(name, dtype, cpu, widened);
    if (index < 0) {
      report.skipped += !widened;
      return;
    }
    const PhiKernel* record = kernels[index];
    const SparseKernel* sparse = sparse_kernels[index];
    const auto boxed = [record, sparse](phi::KernelContext* context) {
      if (record != nullptr) return run_boxed(*record, *context);
      run_sparse_call(*sparse, context->GetDeviceContext<phi::DeviceContext>(), *context);
    };
    phi::Kernel kernel(boxed, stub(index));
    phi::KernelArgsDef& arguments = *kernel.mutable_args_def();
    arguments = cpu.args_def();
    for (auto& input : arguments.input_defs()) {
      if (input.backend == phi::Backend::CPU) input.SetBackend(backend_);
      if (widened && input.dtype == phi::DataType::FLOAT32) input.SetDataType(dtype);
    }
    size_t position = 0;
    for (auto& output : arguments.output_defs()) {
      if (output.backend == phi::Backend::CPU) output.SetBackend(backend_);
      if (record != nullptr) output.SetDataType(record->output_dtypes[position++]);
    }
    const phi::KernelKey key(backend_, phi::DataLayout::ALL_LAYOUT, dtype);
    phi::CustomKernelMap::Instance().RegisterCustomKernel(name, key, kernel);
    ++report.registered;
    report.mapped += record != nullptr && record->mapping != nullptr;
  }

  RegistrationReport report;

 private:
  const phi::Backend backend_;
};

}  // namespace

RegistrationReport register_kernels(Runtime& runtime) {
  Registrar registrar(runtime);
  for (const auto& [name, variants] : phi::KernelFactory::Instance().kernels()) {
    if (left_to_paddle(name, variants)) continue;
    const phi::Kernel* single = nullptr;
    std::set<phi::DataType> dtypes;
    for (const auto& [key, cpu] : variants) {
      if (key.backend() != phi::Backend::CPU || key.layout() == phi::DataLayout::STRIDED) continue;
      if (key.dtype() == phi::DataType::FLOAT32) single = &cpu;
      dtypes.insert(key.dtype());
      registrar.add(name, key.dtype(), cpu);
    }
    // Few CPU kernels take 16-bit floats; serve these with the float32 kernel in the CPU tier.
    for (const phi::DataType dtype : {phi::DataType::FLOAT16, phi::DataType::BFLOAT16}) {
      if (single != nullptr && dtypes.count(dtype) == 0) registrar.add(name, dtype, *single, true);
    }
  }
  for (const auto& [name, signature] : signatures()) {
    auto& variants = phi::KernelFactory::Instance().kernels()[name];  // adds the name: Paddle ignores unknown ones
    const bool has_cpu = std::any_of(variants.begin(), variants.end(),
                                     [](const auto& variant) { return variant.first.backend() == phi::Backend::CPU; });
    if (has_cpu) continue;
    for (const phi::DataType dtype :
         {phi::DataType::FLOAT32, phi::DataType::FLOAT64, phi::DataType::FLOAT16, phi::DataType::BFLOAT16}) {
      registrar.add(name, dtype, placeholder_kernel(signature, dtype));
    }
  }
  return registrar.report;
}

void CallReader::read(Call& call, ArgumentReader& reader) {
  const PhiKernel& kernel = call.kernel;
  for (int i = 0; i < call.num_inputs(); ++i) {
    auto& slot = call.inputs_[i];
    switch (kernel.inputs[i]) {
      case InputKind::kDense:
        slot.set(reader.pointer<const DenseTensor>());
        break;
      case InputKind::kOptional: {
        const auto& tensor = *reader.pointer<const paddle::optional<DenseTensor>>();
        slot.set(tensor ? tensor.get_ptr() : nullptr);
        break;
      }
      case InputKind::kList: {
        const auto& list = *reader.pointer<const Tensors>();
        slot.set(list.data(), static_cast<int>(list.size()));
        break;
      }
      case InputKind::kOptionalList: {
        const auto& list = *reader.pointer<const paddle::optional<Tensors>>();
        if (list) {
          slot.set(list->data(), static_cast<int>(list->size()));
        } else {
          slot.set(nullptr, 0);
        }
        break;
      }
    }
  }
  for (int i = 0; i < call.num_attributes(); ++i) read_attribute(call, i, reader);
  for (int i = 0; i < call.num_outputs(); ++i) {
    if (kernel.outputs[i]) {
      auto& list = *reader.pointer<Outputs>();
      call.outputs_[i].set(list.data(), static_cast<int>(list.size()));
    } else {
      call.outputs_[i].set(reader.pointer<DenseTensor>());
    }
  }
}

namespace {

template <class T>
const phi::TensorBase* optional_tensor(const void* address) {
  const auto& tensor = *static_cast<const paddle::optional<T>*>(address);
  return tensor ? tensor.get_ptr() : nullptr;
}

template <class T>
void append_list(paddle::small_vector<const phi::TensorBase*>& tensors, const void* address) {
  for (const T* tensor : *static_cast<const std::vector<const T*>*>(address)) tensors.push_back(tensor);
}

}  // namespace

void CallReader::read(Call& call, const SparseKernel& sparse, SparseArguments& arguments, ArgumentReader& reader) {
  for (const TensorKind kind : sparse.inputs) {
    const void* address = reader.pointer<const void>();
    auto& tensors = arguments.inputs.emplace_back();
    switch (kind) {
      case TensorKind::kDense:
        tensors.push_back(static_cast<const DenseTensor*>(address));
        break;
      case TensorKind::kOptionalDense:
        tensors.push_back(optional_tensor<DenseTensor>(address));
        break;
      case TensorKind::kCoo:
        tensors.push_back(static_cast<const phi::SparseCooTensor*>(address));
        break;
      case TensorKind::kCsr:
        tensors.push_back(static_cast<const phi::SparseCsrTensor*>(address));
        break;
      case TensorKind::kRows:
        tensors.push_back(static_cast<const phi::SelectedRows*>(address));
        break;
      case TensorKind::kOptionalRows:
        tensors.push_back(optional_tensor<phi::SelectedRows>(address));
        break;
      case TensorKind::kRowsList:
        append_list<phi::SelectedRows>(tensors, address);
        break;
      case TensorKind::kTensorList:
        append_list<phi::TensorBase>(tensors, address);
        break;
    }
  }
  for (int i = 0; i < call.num_attributes(); ++i) read_attribute(call, i, reader);
  for (const TensorKind kind : sparse.outputs) {
    void* address = reader.pointer<void>();
    if (kind == TensorKind::kCoo) {
      arguments.outputs.push_back(static_cast<phi::SparseCooTensor*>(address));
    } else if (kind == TensorKind::kCsr) {
      arguments.outputs.push_back(static_cast<phi::SparseCsrTensor*>(address));
    } else if (kind == TensorKind::kRows) {
      arguments.outputs.push_back(static_cast<phi::SelectedRows*>(address));
    } else {
      arguments.outputs.push_back(static_cast<DenseTensor*>(address));
    }
  }
}

void CallReader::read(Call& call, const SparseKernel& sparse, SparseArguments& arguments, phi::KernelContext& context) {
  for (size_t i = 0; i < sparse.inputs.size(); ++i) {
    const auto& range = context.InputRangeAt(i);
    auto& tensors = arguments.inputs.emplace_back();
    for (int k = range.first; k < range.second; ++k) tensors.push_back(context.MutableInputAt(k));
    if (tensors.empty() && !is_list(sparse.inputs[i])) tensors.push_back(nullptr);
  }
  for (int i = 0; i < call.num_attributes(); ++i) read_attribute(call, i, context.AttrAt(i));
  for (size_t i = 0; i < sparse.outputs.size(); ++i) {
    const auto& range = context.OutputRangeAt(i);
    arguments.outputs.push_back(range.first < range.second ? context.MutableOutputAt<phi::TensorBase>(range.first)
                                                           : nullptr);
  }
}

void CallReader::read_attribute(Call& call, int i, ArgumentReader& reader) {
  using Type = phi::AttributeType;
  auto& slot = call.attributes_[i];
  slot.object = slot.value;
  switch (call.kernel.attributes[i]) {
    case Type::BOOL:
    case Type::INT32:
    case Type::INT64:
    case Type::DATA_TYPE:
    case Type::DATA_LAYOUT: {
      const uint64_t word = reader.word();  // little-endian: the value is in the low bytes
      std::memcpy(slot.value, &word, sizeof(word));
      break;
    }
    case Type::FLOAT32:
    case Type::FLOAT64: {
      const double value = reader.real();
      std::memcpy(slot.value, &value, sizeof(value));
      break;
    }
    case Type::PLACE: {
      static_assert(sizeof(phi::Place) == 16 && std::is_trivially_copyable_v<phi::Place>);
      uint64_t words[2];
      reader.pair(words);
      std::memcpy(slot.value, words, sizeof(words));
      break;
    }
    default:
      slot.object = reader.pointer<const void>();
  }
}

void CallReader::read(Call& call, phi::KernelContext& context) {
  const PhiKernel& kernel = call.kernel;
  for (int i = 0; i < call.num_inputs(); ++i) {
    const auto& range = context.InputRangeAt(i);
    const auto tensor_at = [&](int k) { return static_cast<const DenseTensor*>(context.MutableInputAt(k)); };
    if (!is_list(kernel.inputs[i])) {
      call.inputs_[i].set(range.first < range.second ? tensor_at(range.first) : nullptr);
      continue;
    }
    Tensors& list = call.owned_arguments().inputs.emplace_back();
    for (int k = range.first; k < range.second; ++k) {
      if (const DenseTensor* tensor = tensor_at(k)) list.push_back(tensor);
    }
    call.inputs_[i].set(list.data(), static_cast<int>(list.size()));
  }
  for (int i = 0; i < call.num_attributes(); ++i) read_attribute(call, i, context.AttrAt(i));
  for (int i = 0; i < call.num_outputs(); ++i) {
    const auto& range = context.OutputRangeAt(i);
    if (!kernel.outputs[i]) {
      call.outputs_[i].set(range.first < range.second ? context.MutableOutputAt<DenseTensor>(range.first) : nullptr);
      continue;
    }
    Outputs& list = call.owned_arguments().outputs.emplace_back();
    for (int k = range.first; k < range.second; ++k) list.push_back(context.MutableOutputAt<DenseTensor>(k));
    call.outputs_[i].set(list.data(), static_cast<int>(list.size()));
  }
  set_output_dtypes(call);
}

// In programs of the old IR many operators infer shapes only: an output then has the dtype it was created or last used
// with. Some shape functions infer a wrong dtype. Paddle's kernels decide by the type they allocate.
void CallReader::set_output_dtypes(Call& call) {
  for (int i = 0; i < call.num_outputs(); ++i) {
    if (call.kernel.output_dtypes[i] != phi::DataType::UNDEFINED) set_output_dtype(call, i);
  }
}

void CallReader::set_inferred_output_dtypes(Call& call) {
  const PhiKernel& kernel = call.kernel;
  for (int i = 0; i < call.num_outputs(); ++i) {
    const phi::DataType dtype = kernel.output_dtypes[i];
    if (dtype == phi::DataType::UNDEFINED) continue;
    // A gradient in float32 belongs to an input in float32. Otherwise the shape function has not set its dtype.
    const bool inferred = kernel.widened && dtype == kernel.dtype;
    if (!inferred || (is_gradient(kernel.name) && !has_single_input(call))) set_output_dtype(call, i);
  }
}

bool CallReader::has_single_input(const Call& call) {
  for (int i = 0; i < call.num_inputs(); ++i) {
    for (const DenseTensor* input : call.inputs(i)) {
      if (input != nullptr && input->dtype() == phi::DataType::FLOAT32) return true;
    }
  }
  return false;
}

void CallReader::set_output_dtype(const Call& call, int i) {
  const phi::DataType dtype = call.kernel.output_dtypes[i];
  for (DenseTensor* output : call.outputs(i)) {
    if (output == nullptr || output->dtype() == dtype || call.is_input(*output)) continue;
    // No variable starts as a 16-bit float: this one was inferred, as in mixed precision.
    if (is_narrow(output->dtype()) && dtype == phi::DataType::FLOAT32) continue;
    output->set_type(dtype);
  }
}

void CallReader::read_attribute(Call& call, int i, const phi::Attribute& attribute) {
  using Type = phi::AttributeType;
  auto& slot = call.attributes_[i];
  const Type type = call.kernel.attributes[i];
  // A graph may pass a scalar or an integer array as tensors.
  if (type == Type::SCALAR) {
    if (const auto* tensor = paddle::get_if<phi::TensorRef>(&attribute)) {
      slot.object = &call.owned_arguments().scalars.emplace_back(*tensor->Get());
      return;
    }
  } else if (type == Type::INT_ARRAY) {
    if (const auto* tensor = paddle::get_if<phi::TensorRef>(&attribute)) {
      slot.object = &call.owned_arguments().arrays.emplace_back(*tensor->Get());
      return;
    }
    if (const auto* tensors = paddle::get_if<std::vector<phi::TensorRef>>(&attribute)) {
      slot.object = &call.owned_arguments().arrays.emplace_back(*tensors);
      return;
    }
  }
  slot.object = paddle::visit([](const auto& value) { return static_cast<const void*>(&value); }, attribute);
}

}  // namespace hp::paddle_adapter

void hp_phi_dispatch(uint32_t index, const hp::paddle_adapter::ArgumentRegisters* registers) {
  using namespace hp::paddle_adapter;
  ArgumentReader reader(*registers);
  const auto& context = *reader.pointer<const phi::DeviceContext>();
  if (kernels[index] == nullptr) return run_sparse_call(*sparse_kernels[index], context, reader);
  Call call(*kernels[index], context);
  CallReader::read(call, reader);
  CallReader::set_inferred_output_dtypes(call);
  run(call);
  if (has_sparse_gradients.load(std::memory_order_relaxed)) guarded(call, [&] { finish_sparse_sum(call); });
}
