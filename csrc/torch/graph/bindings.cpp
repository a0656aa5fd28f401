// Python bindings that build programs (for hardpoint.graph.lowering) and run them.
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>

#include <map>

#include "graph/python_value.h"
#include "graph/replay.h"
#include "runtime/adapter.h"
#include "runtime/module.h"

namespace py = pybind11;

namespace hp::torch_adapter {
namespace {

struct GraphRegister {
  int index;
};

bool has_register(py::handle object) {
  if (py::isinstance<GraphRegister>(object)) return true;
  if (!py::isinstance<py::list>(object) && !py::isinstance<py::tuple>(object)) return false;
  for (py::handle item : object) {
    if (has_register(item)) return true;
  }
  return false;
}

c10::TypePtr without_optional(c10::TypePtr type) {
  while (type && type->kind() == c10::TypeKind::OptionalType)
    type = type->expectRef<c10::OptionalType>().getElementType();
  return type;
}

GraphValue::Kind list_kind(const c10::TypePtr& type) {
  if (!type || type->kind() != c10::TypeKind::ListType) return GraphValue::kAnything;
  const c10::TypePtr element = type->expectRef<c10::ListType>().getElementType();
  if (element->kind() == c10::TypeKind::TensorType) return GraphValue::kTensors;
  if (element->kind() == c10::TypeKind::OptionalType) return GraphValue::kOptionalTensors;
  if (element->kind() == c10::TypeKind::IntType || element->kind() == c10::TypeKind::SymIntType) {
    return GraphValue::kIntegers;
  }
  return GraphValue::kAnything;
}

bool is_tensor(const c10::TypePtr& type) {
  const c10::TypePtr bare = without_optional(type);
  return bare && bare->kind() == c10::TypeKind::TensorType;
}

GraphValue parse(py::handle object, const c10::TypePtr& type = nullptr) {
  GraphValue value;
  if (py::isinstance<GraphRegister>(object)) {
    value.kind = GraphValue::kRegister;
    value.reg = object.cast<GraphRegister>().index;
    value.as_tensor = is_tensor(type);
    value.required = type && type->kind() == c10::TypeKind::TensorType;
  } else if (has_register(object)) {
    value.kind = list_kind(without_optional(type));
    for (py::handle item : object) value.items.push_back(parse(item));
  } else if (object.is_none()) {
    if (type && type->kind() == c10::TypeKind::TensorType) value.constant = at::Tensor();
  } else {
    const bool number = is_tensor(type) && !THPVariable_Check(object.ptr());
    value.constant = number ? c10::IValue(number_as_tensor(ivalue_from_python(object).toScalar()))
                     : type ? torch::jit::toIValue(object, type)
                            : ivalue_from_python(object);
  }
  return value;
}

std::vector<GraphValue> parse_all(const py::object& objects) {
  std::vector<GraphValue> values;
  for (py::handle object : objects) values.push_back(parse(object));
  return values;
}

at::ScalarType dtype_of(py::handle object) { return torch::jit::toIValue(object, c10::IntType::get()).toScalarType(); }

// Parses an instruction as hardpoint.graph.lowering describes it.
GraphInstruction instruction_of(const py::dict& described) {
  static const std::map<std::string, GraphInstruction::Kind> kinds = {{"operator", GraphInstruction::kOperator},
                                                                      {"integer", GraphInstruction::kInteger},
                                                                      {"python", GraphInstruction::kPython},
                                                                      {"kernel", GraphInstruction::kKernel},
                                                                      {"fused", GraphInstruction::kFused}};
  static const char* const integers[] = {"add", "sub", "mul", "floordiv", "mod", "pow", "max", "min", "neg"};
  GraphInstruction instruction;
  instruction.kind = kinds.at(described["kind"].cast<std::string>());
  instruction.name = described["name"].cast<std::string>();
  instruction.results = described["results"].cast<std::vector<int>>();
  instruction.releases = described["releases"].cast<std::vector<int>>();
  instruction.unpack = described["unpack"].cast<bool>();
  for (py::handle each : described["plain"]) instruction.plain.push_back(instruction_of(each.cast<py::dict>()));
  const py::object arguments = described["arguments"];
  switch (instruction.kind) {
    case GraphInstruction::kOperator: {
      const auto [name, overload] = described["operator"].cast<std::pair<std::string, std::string>>();
      instruction.handle = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
      size_t position = 0;
      for (py::handle argument : arguments) {
        instruction.arguments.push_back(
            parse(argument, instruction.handle->schema().arguments().at(position++).real_type()));
      }
      break;
    }
    case GraphInstruction::kInteger:
      instruction.arguments = parse_all(arguments);
      for (int i = 0; i < 9; ++i) {
        if (described["integer"].cast<std::string>() == integers[i]) instruction.integer = GraphInstruction::Integer(i);
      }
      break;
    case GraphInstruction::kPython:
      instruction.arguments = parse_all(arguments);
      instruction.function =
          std::shared_ptr<PyObject>(py::object(described["function"]).release().ptr(), [](PyObject* function) {
            if (!Py_IsInitialized()) return;
            py::gil_scoped_acquire gil;
            Py_DECREF(function);
          });
      break;
    case GraphInstruction::kKernel: {
      instruction.arguments = parse_all(arguments);
      instruction.kernel = std::make_unique<GraphKernel>();
      instruction.kernel->kernel = described["kernel"].cast<std::string>();
      instruction.kernel->num_inputs = described["inputs"].cast<size_t>();
      for (py::handle output : described["outputs"]) {
        const auto [dtype, sizes, strides] = output.cast<std::tuple<py::object, py::object, py::object>>();
        instruction.kernel->outputs.push_back({dtype_of(dtype), parse_all(sizes), parse_all(strides)});
      }
      break;
    }
    case GraphInstruction::kFused: {
      instruction.arguments = parse_all(arguments);
      std::vector<FusedRegion::Output> outputs;
      for (py::handle output : described["outputs"]) {
        const auto [dtype, order] = output.cast<std::pair<py::object, std::vector<int64_t>>>();
        outputs.push_back({dtype_of(dtype), order});
      }
      instruction.fused = std::make_unique<FusedRegion>(described["operator"].cast<std::string>(),
                                                        described["region"].cast<std::string>(), std::move(outputs),
                                                        described["whole"].cast<std::vector<bool>>());
      break;
    }
  }
  return instruction;
}

std::shared_ptr<GraphRunner> make_runner(int num_inputs, int num_registers, const std::string& name,
                                         const py::list& instructions, const py::list& outputs,
                                         const std::vector<at::Tensor>& constants) {
  auto program = std::make_shared<GraphProgram>(num_inputs, num_registers, name);
  for (py::handle each : instructions) program->instructions.push_back(instruction_of(each.cast<py::dict>()));
  for (py::handle each : outputs) program->outputs.push_back(parse(each));
  for (const at::Tensor& tensor : constants) program->constants.emplace_back(tensor);
  return std::make_shared<GraphRunner>(std::move(program));
}

// Empties `inputs_list`: the graph frees each input as soon as it has read it.
py::list run(GraphRunner& runner, py::list inputs_list) {
  std::vector<c10::IValue> inputs;
  inputs.reserve(inputs_list.size());
  for (py::handle item : inputs_list) inputs.push_back(ivalue_from_python(item));
  PyList_SetSlice(inputs_list.ptr(), 0, PyList_GET_SIZE(inputs_list.ptr()), nullptr);
  std::vector<c10::IValue> results;
  {
    py::gil_scoped_release release;
    results = runner.run(std::move(inputs));
  }
  py::list outputs;
  for (c10::IValue& result : results) {
    outputs.append(result.isTensor() && !result.toTensor().defined() ? py::none()
                                                                     : torch::jit::toPyObject(std::move(result)));
  }
  return outputs;
}

// The latest recording: its launches, the instructions left out, and its memory plan.
py::object describe(const GraphRunner& runner) {
  const RecordedRun* latest = runner.latest();
  if (latest == nullptr) return py::none();
  const Recording& recording = latest->recording();
  py::list temporaries, standalone, retained, launches;
  std::vector<PlannedBuffer*> planned;
  for (const RecordedMemory& memory : recording.memories) {
    if (memory.kind == RecordedMemory::kTemporary) {
      temporaries.append(py::make_tuple(memory.bytes, memory.offset, memory.first, memory.last));
      planned.push_back(const_cast<RecordedMemory*>(&memory));
    } else if (memory.kind == RecordedMemory::kStandalone) {
      standalone.append(memory.bytes);
    } else if (memory.kind == RecordedMemory::kRetained) {
      retained.append(memory.bytes);
    }
  }
  for (const RecordedStep& step : recording.steps) {
    launches.append(step.op == nullptr ? std::string("copy") : step.op->name);
  }
  py::dict result;
  result["launches"] = launches;
  result["left_out"] = latest->left_out();
  result["temporaries"] = temporaries;
  result["separate"] = standalone;
  result["kept"] = retained;
  result["arena_bytes"] = recording.arena_bytes;
  result["most_alive"] = peak_live_bytes(planned);
  return result;
}

}  // namespace

void bind_graph(py::module_& m) {
  py::class_<GraphRegister>(m, "GraphRegister").def(py::init<int>()).def_readonly("index", &GraphRegister::index);
  py::class_<GraphRunner, std::shared_ptr<GraphRunner>>(m, "GraphRunner")
      .def(py::init(&make_runner))
      .def("__call__", &run)
      .def_readwrite("record", &GraphRunner::record)
      .def_property_readonly("runs",
                             [](const GraphRunner& runner) {
                               return py::make_tuple(runner.runs[0].load(), runner.runs[1].load(),
                                                     runner.runs[2].load());
                             })
      .def_property_readonly("reason", &GraphRunner::reason)
      .def("describe", &describe);
  m.def("launches",
        [](int index) { return current_stream(device_at(static_cast<c10::DeviceIndex>(index))).launches(); });
}

}  // namespace hp::torch_adapter
