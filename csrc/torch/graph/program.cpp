#include "graph/program.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include <algorithm>

#include "graph/python_value.h"
#include "ops/op_helpers.h"

namespace py = pybind11;

namespace hp::torch_adapter {
namespace {

c10::IValue list_of(const GraphValue& value, const Registers& registers) {
  switch (value.kind) {
    case GraphValue::kTensors: {
      c10::List<at::Tensor> list;
      for (const GraphValue& item : value.items) list.push_back(item.get(registers).toTensor());
      return list;
    }
    case GraphValue::kOptionalTensors: {
      c10::List<std::optional<at::Tensor>> list;
      for (const GraphValue& item : value.items) list.push_back(item.get(registers).toOptional<at::Tensor>());
      return list;
    }
    case GraphValue::kIntegers: {
      c10::List<int64_t> list;
      for (const GraphValue& item : value.items) list.push_back(item.get(registers).toInt());
      return list;
    }
    default: {
      c10::List<c10::IValue> list(c10::AnyType::get());
      for (const GraphValue& item : value.items) list.push_back(item.get(registers));
      return list;
    }
  }
}

void store(const GraphInstruction& instruction, Registers& registers, size_t position, c10::IValue value) {
  const int target = instruction.results[position];
  if (target >= 0) registers[target] = std::move(value);
}

void call_operator(const GraphInstruction& instruction, Registers& registers) {
  torch::jit::Stack stack;
  stack.reserve(instruction.arguments.size());
  for (const GraphValue& argument : instruction.arguments) stack.push_back(argument.get(registers));
  instruction.handle->callBoxed(&stack);
  if (instruction.unpack) {
    const std::vector<at::Tensor> items = stack.at(0).toTensorVector();
    TORCH_CHECK(items.size() >= instruction.results.size(), instruction.name, " returned ", items.size(),
                " tensors, the graph expects ", instruction.results.size());
    for (size_t i = 0; i < instruction.results.size(); ++i) store(instruction, registers, i, items[i]);
    return;
  }
  for (size_t i = 0; i < instruction.results.size(); ++i) store(instruction, registers, i, std::move(stack.at(i)));
}

int64_t floor_divide(int64_t a, int64_t b) {
  TORCH_CHECK(b != 0, "integer division by zero");
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

int64_t power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0; --exponent) result *= base;
  return result;
}

void compute(const GraphInstruction& instruction, Registers& registers) {
  const int64_t a = instruction.arguments[0].get(registers).toInt();
  const int64_t b = instruction.arguments.size() > 1 ? instruction.arguments[1].get(registers).toInt() : 0;
  const int64_t result = [&] {
    switch (instruction.integer) {
      case GraphInstruction::kAdd:
        return a + b;
      case GraphInstruction::kSubtract:
        return a - b;
      case GraphInstruction::kMultiply:
        return a * b;
      case GraphInstruction::kFloorDivide:
        return floor_divide(a, b);
      case GraphInstruction::kModulo:
        return a - floor_divide(a, b) * b;
      case GraphInstruction::kPower:
        return power(a, b);
      case GraphInstruction::kMaximum:
        return std::max(a, b);
      case GraphInstruction::kMinimum:
        return std::min(a, b);
      default:
        return -a;
    }
  }();
  store(instruction, registers, 0, result);
}

void call_python(const GraphInstruction& instruction, Registers& registers) {
  py::gil_scoped_acquire gil;
  try {
    py::list arguments;
    for (const GraphValue& argument : instruction.arguments) {
      arguments.append(torch::jit::toPyObject(argument.get(registers)));
    }
    const py::object result = py::reinterpret_borrow<py::object>(instruction.function.get())(*arguments);
    if (instruction.unpack) {
      const auto items = py::cast<py::sequence>(result);
      TORCH_CHECK(items.size() >= instruction.results.size(), instruction.name, " returned ", items.size(),
                  " results, the graph expects ", instruction.results.size());
      for (size_t i = 0; i < instruction.results.size(); ++i) {
        if (instruction.results[i] < 0) continue;
        const py::object item = items[i];
        store(instruction, registers, i, ivalue_from_python(item));
      }
    } else if (!instruction.results.empty() && instruction.results[0] >= 0) {
      store(instruction, registers, 0, ivalue_from_python(result));
    }
  } catch (py::error_already_set& error) {
    error.restore();
    python_error raised;
    raised.persist();
    throw python_error(raised);
  }
}

std::vector<int64_t> integers(const std::vector<GraphValue>& values, const Registers& registers) {
  std::vector<int64_t> result;
  for (const GraphValue& value : values) result.push_back(value.get(registers).toInt());
  return result;
}

// False if the kernel does not exist or declines.
bool call_kernel(const GraphInstruction& instruction, Registers& registers) {
  const GraphKernel& requested = *instruction.kernel;
  std::vector<at::Tensor> tensors;
  std::vector<VendorArgument> arguments;
  std::vector<std::vector<int64_t>> lists;
  lists.reserve(instruction.arguments.size());
  int device = -1;
  for (size_t i = 0; i < requested.num_inputs; ++i) {
    const c10::IValue value = instruction.arguments[i].get(registers);
    at::Tensor tensor = value.isNone() ? at::Tensor() : value.toTensor();
    if (tensor.defined()) {
      if (!on_device(tensor) || to_core(tensor.scalar_type()) == DType::kNone) return false;
      device = tensor.device().index();
    }
    tensors.push_back(std::move(tensor));
  }
  Device& target = device_at(static_cast<c10::DeviceIndex>(device));
  const hp::Kernel* kernel = KernelRegistry::slot(runtime(), requested.kernel).get();
  if (kernel == nullptr) return false;
  std::vector<at::Tensor> results;
  for (const GraphKernel::Output& output : requested.outputs) {
    results.push_back(empty_strided(integers(output.sizes, registers), integers(output.strides, registers),
                                    output.dtype, target.index));
  }
  for (const at::Tensor& result : results) arguments.push_back(output(view(result)));
  for (const at::Tensor& tensor : tensors) arguments.push_back(input(view(tensor)));
  for (size_t i = requested.num_inputs; i < instruction.arguments.size(); ++i) {
    const c10::IValue value = instruction.arguments[i].get(registers);
    if (value.isBool()) {
      arguments.push_back(attribute(value.toBool()));
    } else if (value.isInt()) {
      arguments.push_back(attribute(value.toInt()));
    } else if (value.isDouble()) {
      arguments.push_back(attribute(value.toDouble()));
    } else if (value.isIntList()) {
      lists.push_back(value.toIntVector());
      arguments.push_back(attribute(lists.back().data(), static_cast<int64_t>(lists.back().size())));
    } else {
      return false;
    }
  }
  Operator& op = Operator::intern("hardpoint::" + requested.kernel);
  if (!call_vendor(op, kernel, target, arguments.data(), arguments.data() + arguments.size())) return false;
  for (size_t i = 0; i < instruction.results.size(); ++i) store(instruction, registers, i, results[i]);
  return true;
}

// Whether a fused region may write a result over this input: its last use is here, and nothing else refers to its
// memory.
bool is_reusable(const GraphInstruction& instruction, int reg, const at::Tensor& tensor,
                 const std::vector<const void*>& external) {
  if (std::find(instruction.releases.begin(), instruction.releases.end(), reg) == instruction.releases.end()) {
    return false;
  }
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1 && tensor.storage_offset() == 0 &&
         std::find(external.begin(), external.end(), tensor.storage().unsafeGetStorageImpl()) == external.end();
}

bool call_fused(const GraphInstruction& instruction, Registers& registers, const std::vector<const void*>& external) {
  std::vector<const at::Tensor*> inputs;
  std::vector<c10::Scalar> numbers;
  std::vector<bool> reusable;
  for (const GraphValue& argument : instruction.arguments) {
    if (argument.kind == GraphValue::kRegister && registers[argument.reg].isTensor()) {
      const at::Tensor& tensor = registers[argument.reg].toTensor();
      inputs.push_back(&tensor);
      reusable.push_back(is_reusable(instruction, argument.reg, tensor, external));
    } else {
      numbers.push_back(argument.get(registers).toScalar());
    }
  }
  std::vector<at::Tensor> results = instruction.fused->run(inputs, numbers, reusable);
  if (results.empty()) return false;
  for (size_t i = 0; i < instruction.results.size(); ++i) store(instruction, registers, i, std::move(results[i]));
  return true;
}

}  // namespace

c10::IValue GraphValue::get(const Registers& registers) const {
  if (kind == kConstant) return constant;
  if (kind == kRegister) {
    const c10::IValue& value = registers[reg];
    if (required && value.isNone()) return at::Tensor();
    return as_tensor && value.isScalar() ? c10::IValue(number_as_tensor(value.toScalar())) : value;
  }
  return list_of(*this, registers);
}

void GraphValue::collect_registers(std::vector<int>& found) const {
  if (kind == kRegister) found.push_back(reg);
  for (const GraphValue& item : items) item.collect_registers(found);
}

at::Tensor number_as_tensor(const c10::Scalar& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

std::vector<const void*> storage_addresses(const Registers& registers) {
  std::vector<const void*> storages;
  for (const c10::IValue& value : registers) {
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().has_storage()) {
      storages.push_back(value.toTensor().storage().unsafeGetStorageImpl());
    }
  }
  return storages;
}

Registers GraphProgram::begin(std::vector<c10::IValue> inputs) const {
  TORCH_CHECK(static_cast<int>(inputs.size()) == num_inputs, name, ": expected ", num_inputs, " inputs, got ",
              inputs.size());
  Registers registers = std::move(inputs);
  registers.insert(registers.end(), constants.begin(), constants.end());
  registers.resize(num_registers);
  return registers;
}

void GraphProgram::execute(const GraphInstruction& instruction, Registers& registers, bool tools,
                           const std::vector<const void*>& external) const {
  switch (instruction.kind) {
    case GraphInstruction::kOperator:
      return call_operator(instruction, registers);
    case GraphInstruction::kInteger:
      return compute(instruction, registers);
    case GraphInstruction::kPython:
      return call_python(instruction, registers);
    case GraphInstruction::kKernel:
      if (!tools && call_kernel(instruction, registers)) return;
      break;
    case GraphInstruction::kFused:
      if (!tools && call_fused(instruction, registers, external)) return;
      break;
  }
  for (const GraphInstruction& each : instruction.plain) {
    execute(each, registers, tools, external);
    for (int reg : each.releases) registers[reg] = c10::IValue();
  }
}

std::vector<c10::IValue> GraphProgram::finish(const Registers& registers) const {
  std::vector<c10::IValue> results;
  for (const GraphValue& output : outputs) results.push_back(output.get(registers));
  return results;
}

std::vector<c10::IValue> GraphProgram::run(std::vector<c10::IValue> inputs, bool tools) const {
  const at::AutoDispatchBelowADInplaceOrView guard;
  Registers registers = begin(std::move(inputs));
  const std::vector<const void*> external = storage_addresses(registers);
  for (const GraphInstruction& instruction : instructions) {
    execute(instruction, registers, tools, external);
    for (int reg : instruction.releases) registers[reg] = c10::IValue();
  }
  return finish(registers);
}

}  // namespace hp::torch_adapter
