#include "watch.h"

#include <paddle/phi/common/scalar.h>
#include <paddle/phi/core/enforce.h>
#include <pybind11/complex.h>

#include "../core/watched.h"
#include "host_call.h"
#include "seen.h"

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

// The inputs as they were before a call, on the host, and what the CPU makes of them.
class Reference {
 public:
  explicit Reference(Call& call) : host_(std::make_unique<HostCall>(call)) {
    py::gil_scoped_release released;
    try {
      host_->bring_inputs();
    } catch (const Error& error) {
      if (error.status == HP_TIMEOUT) host_.release();
      throw;
    }
  }
  // The outputs in order, flat, in double precision where asked for; none if the CPU has no kernel for that.
  py::object run(bool wide) {
    bool done = false;
    {
      py::gil_scoped_release released;
      done = host_->run(wide ? HostCall::Floats::kDouble : HostCall::Floats::kOwn, true);
    }
    if (!done) return py::none();
    py::list list;
    for (const HostCall::Output& output : host_->outputs()) list.append(seen(output.made));
    return list;
  }

 private:
  std::unique_ptr<HostCall> host_;
};

// A call while it lasts.
class SeenCall {
 public:
  explicit SeenCall(Call& call) : call_(call) {}
  const std::string& name() const { return call_.kernel.op->name; }
  std::string dtype() const { return phi::DataTypeToString(call_.kernel.dtype); }
  py::list inputs() const {
    py::list list;
    for (int i = 0; i < call_.num_inputs(); ++i) {
      const InputKind kind = call_.kernel.inputs[i];
      const bool single = kind == InputKind::kDense || kind == InputKind::kOptional;
      list.append(single ? seen(call_.input(i)) : py::object(seen(call_.inputs(i))));
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
      list.append(call_.kernel.outputs[i] ? py::object(seen(call_.outputs(i))) : seen(call_.output(i)));
    }
    return list;
  }
  std::unique_ptr<Reference> reference() const { return std::make_unique<Reference>(call_); }

 private:
  Call& call_;
};

// A tool that raises ends the call: what it said travels through Paddle as an error of Paddle's.
template <class... Arguments>
py::object call_tool(const char* name, Arguments&&... arguments) {
  std::string said;
  try {
    return py::module_::import("hardpoint.toolbox.watching").attr(name)(std::forward<Arguments>(arguments)...);
  } catch (py::error_already_set& error) {
    said = error.what();
  }
  throw Error(HP_ERROR, said);
}

// What the tool keeps of a call between its two ends. Released under the interpreter's lock.
class Record {
 public:
  explicit Record(SeenCall& shown) : shown_(shown) {
    const ToolScope tool;
    py::gil_scoped_acquire gil;
    record_ = call_tool("begin_phi", py::cast(&shown, py::return_value_policy::reference)).release().ptr();
  }
  ~Record() {
    py::gil_scoped_acquire gil;
    Py_XDECREF(record_);
  }
  Record(const Record&) = delete;

  void finish(const std::string& tier) const {
    const ToolScope tool;
    py::gil_scoped_acquire gil;
    call_tool("end", py::reinterpret_borrow<py::object>(record_), shown_.outputs(), tier);
  }
  void fail(const char* message) const {
    const ToolScope tool;
    py::gil_scoped_acquire gil;
    call_tool("fail", py::reinterpret_borrow<py::object>(record_), message);
  }

 private:
  const SeenCall& shown_;
  PyObject* record_ = nullptr;
};

}  // namespace

bool to_watch(const Operator& op) { return enters_tool(op) && Py_IsInitialized(); }

void watch(Call& call, void (*serve)(Call&)) {
  SeenCall shown(call);
  const Record record(shown);
  std::string tier;
  try {
    const WatchedScope scope(*call.kernel.op);
    serve(call);
    tier = scope.tier();
  } catch (const std::exception& error) {
    record.fail(error.what());
    throw;
  }
  record.finish(tier);
}

void add_watch(py::module_& module) {
  py::class_<SeenTensor>(module, "Tensor")
      .def_property_readonly("dtype", &SeenTensor::dtype)
      .def_property_readonly("sizes", &SeenTensor::sizes)
      .def_property_readonly("strides", &SeenTensor::strides)
      .def_property_readonly("view", &SeenTensor::is_view)
      .def_property_readonly("device", &SeenTensor::device)
      .def_property_readonly("data_ptr", &SeenTensor::address)
      .def_property_readonly("has_memory", &SeenTensor::has_memory)
      .def("holder", &SeenTensor::holder)
      .def("bytes", &SeenTensor::bytes);
  py::class_<SeenHolder>(module, "Holder")
      .def("gone", &SeenHolder::gone)
      .def_property_readonly("address", &SeenHolder::address)
      .def_property_readonly("bytes", &SeenHolder::bytes);
  py::class_<Reference>(module, "Reference").def("run", &Reference::run);
  py::class_<SeenCall>(module, "Call")
      .def_property_readonly("name", &SeenCall::name)
      .def_property_readonly("dtype", &SeenCall::dtype)
      .def("inputs", &SeenCall::inputs)
      .def("attributes", &SeenCall::attributes)
      .def("outputs", &SeenCall::outputs)
      .def("reference", &SeenCall::reference);
}

}  // namespace hp::paddle_adapter
