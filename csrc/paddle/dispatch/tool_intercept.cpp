#include "dispatch/tool_intercept.h"

#include <paddle/phi/common/scalar.h>
#include <paddle/phi/core/enforce.h>
#include <pybind11/complex.h>

#include "core/dispatch/tool_scope.h"
#include "dispatch/host_call.h"
#include "dispatch/python_tensor.h"

namespace py = pybind11;

namespace hp::paddle_adapter {
namespace {

py::object to_python(const phi::Scalar& scalar) {
  switch (scalar.dtype()) {
    case phi::DataType::BOOL:
      return py::cast(scalar.to<bool>());
    case phi::DataType::FLOAT16:
    case phi::DataType::BFLOAT16:
    case phi::DataType::FLOAT32:
    case phi::DataType::FLOAT64:
      return py::cast(scalar.to<double>());
    case phi::DataType::COMPLEX64:
    case phi::DataType::COMPLEX128: {
      const auto value = scalar.to<phi::dtype::complex<double>>();
      return py::cast(std::complex<double>(value.real, value.imag));
    }
    default:
      return py::cast(scalar.to<int64_t>());
  }
}

py::object to_python(const Call& call, int i) {
  using Type = phi::AttributeType;
  switch (call.kernel.attributes[i]) {
    case Type::SCALAR:
      return to_python(call.attr<phi::Scalar>(i));
    case Type::SCALARS: {
      py::list list;
      for (const phi::Scalar& scalar : call.attr<std::vector<phi::Scalar>>(i)) list.append(to_python(scalar));
      return list;
    }
    case Type::INT_ARRAY:
      return py::cast(call.attr<phi::IntArray>(i).GetData());
    case Type::DATA_TYPE:
      return py::cast(phi::DataTypeToString(call.attr<phi::DataType>(i)));
    case Type::DATA_LAYOUT:
      return py::cast(common::DataLayoutToString(call.attr<phi::DataLayout>(i)));
    case Type::PLACE:
      return py::cast(call.attr<phi::Place>(i).DebugString());
    default:
      return paddle::visit(
          [](const auto& value) -> py::object {
            using T = std::decay_t<decltype(value)>;
            if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string> ||
                          std::is_same_v<T, std::vector<bool>> || std::is_same_v<T, std::vector<int>> ||
                          std::is_same_v<T, std::vector<int64_t>> || std::is_same_v<T, std::vector<float>> ||
                          std::is_same_v<T, std::vector<double>> || std::is_same_v<T, std::vector<std::string>>) {
              return py::cast(value);
            } else {
              return py::none();
            }
          },
          call.attribute(i));
  }
}

// Host copies of a call's inputs, taken before it runs, from which the CPU computes reference results.
class Reference {
 public:
  explicit Reference(Call& call) : host_(std::make_unique<HostCall>(call)) {
    py::gil_scoped_release released;
    try {
      host_->copy_inputs();
    } catch (const Error& error) {
      if (error.status == HP_TIMEOUT) host_.release();  // leak it: pending copies may still write to it
      throw;
    }
  }
  // The outputs as a flat list, computed in float64 if `wide`; None if the CPU has no such kernel.
  py::object run(bool wide) {
    bool has_kernel = false;
    {
      py::gil_scoped_release released;
      has_kernel = host_->run(wide ? HostCall::FloatMode::kDouble : HostCall::FloatMode::kKernelDtype, true);
    }
    if (!has_kernel) return py::none();
    py::list list;
    for (const HostCall::Output& output : host_->outputs()) list.append(to_python_tensor(output.host));
    return list;
  }

 private:
  std::unique_ptr<HostCall> host_;
};

// A call passed to a Python tool. Valid only until the call returns.
class PythonCall {
 public:
  explicit PythonCall(Call& call) : call_(call) {}
  const std::string& name() const { return call_.kernel.op->name; }
  std::string dtype() const { return phi::DataTypeToString(call_.kernel.dtype); }
  bool captured() const { return stream_of(call_.context).capture() != nullptr; }
  py::list inputs() const {
    py::list list;
    for (int i = 0; i < call_.num_inputs(); ++i) {
      list.append(is_list(call_.kernel.inputs[i]) ? py::object(to_python_tensor(call_.inputs(i)))
                                                  : to_python_tensor(call_.input(i)));
    }
    return list;
  }
  py::list attributes() const {
    py::list list;
    for (int i = 0; i < call_.num_attributes(); ++i) list.append(to_python(call_, i));
    return list;
  }
  py::list outputs() const {
    py::list list;
    for (int i = 0; i < call_.num_outputs(); ++i) {
      list.append(call_.kernel.outputs[i] ? py::object(to_python_tensor(call_.outputs(i)))
                                          : to_python_tensor(call_.output(i)));
    }
    return list;
  }
  std::unique_ptr<Reference> reference() const { return std::make_unique<Reference>(call_); }

 private:
  Call& call_;
};

// Calls a function of hardpoint.debug._tool.base. A Python exception becomes an Error, which Paddle can propagate.
template <class... Arguments>
py::object call_tool(const char* name, Arguments&&... arguments) {
  std::string message;
  try {
    return py::module_::import("hardpoint.debug._tool.base").attr(name)(std::forward<Arguments>(arguments)...);
  } catch (py::error_already_set& error) {
    message = error.what();
  }
  throw Error(HP_ERROR, message);
}

// Owns the tool's Python record of a call, from its begin to its end or failure. Acquires the GIL itself.
class Record {
 public:
  explicit Record(PythonCall& call) : call_(call) {
    const ToolScope tool;
    py::gil_scoped_acquire gil;
    record_ = call_tool("begin_paddle", py::cast(&call, py::return_value_policy::reference)).release().ptr();
  }
  ~Record() {
    py::gil_scoped_acquire gil;
    Py_XDECREF(record_);
  }
  Record(const Record&) = delete;

  void finish(const std::string& tier) const {
    const ToolScope tool;
    py::gil_scoped_acquire gil;
    call_tool("end", py::reinterpret_borrow<py::object>(record_), call_.outputs(), tier);
  }
  void fail(const char* message) const {
    const ToolScope tool;
    py::gil_scoped_acquire gil;
    call_tool("fail", py::reinterpret_borrow<py::object>(record_), message);
  }

 private:
  const PythonCall& call_;
  PyObject* record_ = nullptr;
};

}  // namespace

bool should_intercept(const Operator& op) { return enters_tool(op) && Py_IsInitialized(); }

void intercept(Call& call, void (*serve)(Call&)) {
  PythonCall python_call(call);
  const Record record(python_call);
  std::string tier;
  try {
    const InterceptedCallScope scope(*call.kernel.op);
    serve(call);
    tier = scope.tier();
  } catch (const std::exception& error) {
    record.fail(error.what());
    throw;
  }
  record.finish(tier);
}

void bind_tool_intercept(py::module_& module) {
  py::class_<PythonTensor>(module, "Tensor")
      .def_property_readonly("dtype", &PythonTensor::dtype)
      .def_property_readonly("sizes", &PythonTensor::sizes)
      .def_property_readonly("strides", &PythonTensor::strides)
      .def_property_readonly("view", &PythonTensor::is_view)
      .def_property_readonly("device", &PythonTensor::device)
      .def_property_readonly("data_ptr", &PythonTensor::address)
      .def_property_readonly("has_memory", &PythonTensor::has_memory)
      .def("holder", &PythonTensor::holder)
      .def("bytes", &PythonTensor::bytes);
  py::class_<AllocationRef>(module, "Holder")
      .def("expired", &AllocationRef::expired)
      .def_property_readonly("address", &AllocationRef::address)
      .def_property_readonly("bytes", &AllocationRef::bytes);
  py::class_<Reference>(module, "Reference").def("run", &Reference::run);
  py::class_<PythonCall>(module, "Call")
      .def_property_readonly("name", &PythonCall::name)
      .def_property_readonly("dtype", &PythonCall::dtype)
      .def_property_readonly("captured", &PythonCall::captured)
      .def("inputs", &PythonCall::inputs)
      .def("attributes", &PythonCall::attributes)
      .def("outputs", &PythonCall::outputs)
      .def("reference", &PythonCall::reference);
}

}  // namespace hp::paddle_adapter
