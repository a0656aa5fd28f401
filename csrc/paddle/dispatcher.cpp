// Every dense kernel of Paddle's CPU becomes one of the device: entered through our stubs or through a KernelContext,
// it is served by what the tables map it to, else by the CPU tier.
#include <paddle/phi/common/tensor_ref.h>
#include <paddle/phi/core/custom_kernel.h>
#include <paddle/phi/core/enforce.h>
#include <paddle/phi/core/kernel_context.h>

#include <mutex>
#include <set>

#include "call.h"
#include "entry.h"
#include "watch.h"

namespace hp::paddle_adapter {

// Fills in a call's arguments.
class CallReader {
 public:
  // A C++ call. The first argument, the context, has been read.
  static void read(Call& call, ArgumentReader& reader);
  static void read(Call& call, phi::KernelContext& context);

 private:
  static void read_attribute(Call& call, int i, ArgumentReader& reader);
  static void read_attribute(Call& call, int i, const phi::Attribute& given);
};

namespace {

using Tensors = std::vector<const DenseTensor*>;
using Outputs = std::vector<DenseTensor*>;

// By the number of its stub.
std::array<PhiKernel*, kStubs> kernels{};
int num_kernels = 0;

void serve(Call& call) {
  const Mapping* mapping = call.kernel.mapping;
  if (mapping != nullptr && mapping->function(call)) return;
  cpu_tier(call);
}

void run(Call& call) {
  StreamScope scope(stream_of(call.context));
  try {
    const Operator& op = *call.kernel.op;
    if (op.watched() && to_watch(op)) return watch(call, &serve);
    serve(call);
  } catch (const OutOfMemory& error) {
    PADDLE_THROW(common::errors::ResourceExhausted("%s: %s", call.kernel.op->name, error.what()));
  } catch (const Error& error) {
    PADDLE_THROW(common::errors::External("%s: %s", call.kernel.op->name, error.what()));
  }
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

std::map<std::pair<std::string, phi::DataType>, int>& known_kernels() {
  static auto* known = new std::map<std::pair<std::string, phi::DataType>, int>;
  return *known;
}

// The record of a kernel for one dtype, made once for all plug-ins; null for one that is not dense.
int kernel_index(const std::string& name, phi::DataType dtype, const phi::Kernel& cpu, bool widened) {
  const auto [place, added] = known_kernels().emplace(std::make_pair(name, dtype), -1);
  if (!added) return place->second;
  if (num_kernels == kStubs || cpu.GetKernelRegisteredType() != phi::KernelRegisteredType::FUNCTION) return -1;
  auto kernel = std::make_unique<PhiKernel>();
  if (!read_signature(cpu.args_def(), *kernel)) return -1;
  kernel->name = name;
  kernel->dtype = dtype;
  kernel->cpu = cpu;
  kernel->widened = widened;
  kernel->mapping = find_mapping(name);
  kernel->op = &Operator::intern("phi::" + name);
  place->second = num_kernels;
  kernels[num_kernels] = kernel.release();
  return num_kernels++;
}

// Whether Paddle should serve these kernels itself: it has them for any device, or does more than a call.
bool left_to_paddle(const std::string& name, const phi::KernelKeyMap& variants) {
  static const std::set<std::string> others = {
#include "generated/left_to_paddle.inc"
  };
  if (others.count(name) != 0) return true;
  for (const auto& variant : variants) {
    if (variant.first.backend() == phi::Backend::CUSTOM) return true;
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
  const auto found = known_kernels().find(std::make_pair(name, dtype));
  return found == known_kernels().end() || found->second < 0 ? nullptr : kernels[found->second];
}

namespace {

// What stands for the CPU's kernel where there is none: its arguments alone.
phi::Kernel arguments_of(const Signature& signature, phi::DataType dtype) {
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
    phi::Kernel kernel([record](phi::KernelContext* context) { run_boxed(*record, *context); }, stub(index));
    phi::KernelArgsDef& arguments = *kernel.mutable_args_def();
    arguments = cpu.args_def();
    const auto adapt = [&](phi::TensorArgDef& tensor) {
      if (tensor.backend == phi::Backend::CPU) tensor.SetBackend(backend_);
      if (widened && tensor.dtype == phi::DataType::FLOAT32) tensor.SetDataType(dtype);
    };
    for (auto& input : arguments.input_defs()) adapt(input);
    for (auto& output : arguments.output_defs()) adapt(output);
    const phi::KernelKey key(backend_, phi::DataLayout::ALL_LAYOUT, dtype);
    phi::CustomKernelMap::Instance().RegisterCustomKernel(name, key, kernel);
    ++report.registered;
    report.mapped += record->mapping != nullptr;
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
    // Few of the CPU's kernels take 16-bit floats, which devices are made for.
    for (const phi::DataType dtype : {phi::DataType::FLOAT16, phi::DataType::BFLOAT16}) {
      if (single != nullptr && dtypes.count(dtype) == 0) registrar.add(name, dtype, *single, true);
    }
  }
  for (const auto& [name, signature] : signatures()) {
    auto& known = phi::KernelFactory::Instance().kernels()[name];  // Paddle takes none of a name that it does not know
    const bool has_cpu = std::any_of(known.begin(), known.end(),
                                     [](const auto& variant) { return variant.first.backend() == phi::Backend::CPU; });
    if (has_cpu) continue;
    for (const phi::DataType dtype :
         {phi::DataType::FLOAT32, phi::DataType::FLOAT64, phi::DataType::FLOAT16, phi::DataType::BFLOAT16}) {
      registrar.add(name, dtype, arguments_of(signature, dtype));
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
        const auto& given = *reader.pointer<const paddle::optional<DenseTensor>>();
        slot.set(given ? given.get_ptr() : nullptr);
        break;
      }
      case InputKind::kList: {
        const auto& given = *reader.pointer<const Tensors>();
        slot.set(given.data(), static_cast<int>(given.size()));
        break;
      }
      case InputKind::kOptionalList: {
        const auto& given = *reader.pointer<const paddle::optional<Tensors>>();
        if (given) {
          slot.set(given->data(), static_cast<int>(given->size()));
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
      auto& given = *reader.pointer<Outputs>();
      call.outputs_[i].set(given.data(), static_cast<int>(given.size()));
    } else {
      call.outputs_[i].set(reader.pointer<DenseTensor>());
    }
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
      const uint64_t word = reader.word();  // little-endian: the lower bytes are the value
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
    const auto at = [&](int k) { return static_cast<const DenseTensor*>(context.MutableInputAt(k)); };
    if (kernel.inputs[i] == InputKind::kDense || kernel.inputs[i] == InputKind::kOptional) {
      call.inputs_[i].set(range.first < range.second ? at(range.first) : nullptr);
      continue;
    }
    Tensors& list = call.kept().inputs.emplace_back();
    for (int k = range.first; k < range.second; ++k) {
      if (const DenseTensor* tensor = at(k)) list.push_back(tensor);
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
    Outputs& list = call.kept().outputs.emplace_back();
    for (int k = range.first; k < range.second; ++k) list.push_back(context.MutableOutputAt<DenseTensor>(k));
    call.outputs_[i].set(list.data(), static_cast<int>(list.size()));
  }
}

void CallReader::read_attribute(Call& call, int i, const phi::Attribute& given) {
  using Type = phi::AttributeType;
  auto& slot = call.attributes_[i];
  const Type type = call.kernel.attributes[i];
  // A graph may give a number or a list of them as a tensor.
  if (type == Type::SCALAR) {
    if (const auto* tensor = paddle::get_if<phi::TensorRef>(&given)) {
      slot.object = &call.kept().scalars.emplace_back(*tensor->Get());
      return;
    }
  } else if (type == Type::INT_ARRAY) {
    if (const auto* tensor = paddle::get_if<phi::TensorRef>(&given)) {
      slot.object = &call.kept().arrays.emplace_back(*tensor->Get());
      return;
    }
    if (const auto* tensors = paddle::get_if<std::vector<phi::TensorRef>>(&given)) {
      slot.object = &call.kept().arrays.emplace_back(*tensors);
      return;
    }
  }
  slot.object = paddle::visit([](const auto& value) { return static_cast<const void*>(&value); }, given);
}

}  // namespace hp::paddle_adapter

void hp_phi_called(uint32_t index, const hp::paddle_adapter::Registers* registers) {
  using namespace hp::paddle_adapter;
  ArgumentReader reader(*registers);
  Call call(*kernels[index], *reader.pointer<const phi::DeviceContext>());
  CallReader::read(call, reader);
  run(call);
}
