#include "watch.h"

#include <paddle/phi/backends/context_pool.h>
#include <paddle/phi/common/scalar.h>
#include <paddle/phi/core/enforce.h>
#include <paddle/phi/core/kernel_context.h>
#include <pybind11/complex.h>
#include <pybind11/stl.h>

#include "../core/watched.h"
#include "host_call.h"

namespace py = pybind11;

namespace hp::paddle_adapter {
namespace {

// Bytes from the first element to the end of the last.
size_t span_of(const DenseTensor& tensor) {
  if (tensor.numel() == 0) return 0;
  int64_t last = 0;
  for (int d = 0; d < tensor.dims().size(); ++d) last += (tensor.dims()[d] - 1) * tensor.strides()[d];
  return static_cast<size_t>(last + 1) * phi::SizeOf(tensor.dtype());
}

// A tensor's memory, which this does not keep.
class SeenHolder {
 public:
  explicit SeenHolder(const std::shared_ptr<phi::Allocation>& holder)
      : holder_(holder), address_(reinterpret_cast<uintptr_t>(holder->ptr())), bytes_(holder->size()) {}
  bool gone() const { return holder_.expired(); }
  uintptr_t address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  const std::weak_ptr<phi::Allocation> holder_;
  const uintptr_t address_;
  const size_t bytes_;
};

// A tensor as tools see it. It shares the memory, and keeps it.
class SeenTensor {
 public:
  explicit SeenTensor(const DenseTensor& tensor) : tensor_(tensor) {}

  const DenseTensor& tensor() const { return tensor_; }
  std::string dtype() const { return phi::DataTypeToString(tensor_.dtype()); }
  std::vector<int64_t> sizes() const { return common::vectorize(tensor_.dims()); }
  std::vector<int64_t> strides() const { return common::vectorize(tensor_.strides()); }
  bool has_memory() const { return tensor_.initialized(); }
  bool is_view() const { return tensor_.meta().offset != 0 || !tensor_.meta().is_contiguous(); }
  uintptr_t address() const { return has_memory() ? reinterpret_cast<uintptr_t>(tensor_.data()) : 0; }
  std::string device() const {
    if (!has_memory()) return "";
    const phi::Place& place = tensor_.place();
    if (!on_device(tensor_)) return "cpu";
    return place.GetDeviceType() + ":" + std::to_string(place.GetDeviceId());
  }

  SeenHolder holder() const { return SeenHolder(tensor_.Holder()); }

  // From the first element to the last, with what lies between.
  py::bytes bytes() const {
    std::string copy(has_memory() ? span_of(tensor_) : 0, '\0');
    if (copy.empty()) return copy;
    if (!on_device(tensor_)) {
      std::memcpy(copy.data(), tensor_.data(), copy.size());
      return copy;
    }
    Stream& stream = stream_of(*phi::DeviceContextPool::Instance().Get(tensor_.place()));
    {
      py::gil_scoped_release released;
      stream.device.copy_to_host(copy.data(), tensor_.data(), copy.size(), stream);
      stream.synchronize();
    }
    return copy;
  }

 private:
  const DenseTensor tensor_;
};

py::object seen(const DenseTensor* tensor) {
  return tensor == nullptr ? py::object(py::none()) : py::cast(SeenTensor(*tensor));
}

template <class T>
py::list seen(const List<T>& tensors) {
  py::list list;
  for (const DenseTensor* tensor : tensors) list.append(seen(tensor));
  return list;
}

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

phi::Scalar to_scalar(const py::handle& value) {
  if (py::isinstance<py::bool_>(value)) return phi::Scalar(value.cast<bool>());
  if (py::isinstance<py::int_>(value)) return phi::Scalar(value.cast<int64_t>());
  if (py::isinstance<py::float_>(value)) return phi::Scalar(value.cast<double>());
  const auto complex = value.cast<std::complex<double>>();
  return phi::Scalar(phi::dtype::complex<double>(complex.real(), complex.imag()));
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

phi::Attribute to_attribute(phi::AttributeType type, const py::handle& value, const phi::Place& place) {
  using Type = phi::AttributeType;
  switch (type) {
    case Type::BOOL:
      return value.cast<bool>();
    case Type::INT32:
      return value.cast<int>();
    case Type::INT64:
      return value.cast<int64_t>();
    case Type::FLOAT32:
      return value.cast<float>();
    case Type::FLOAT64:
      return value.cast<double>();
    case Type::STRING:
      return value.cast<std::string>();
    case Type::BOOLS:
      return value.cast<std::vector<bool>>();
    case Type::INT32S:
      return value.cast<std::vector<int>>();
    case Type::INT64S:
      return value.cast<std::vector<int64_t>>();
    case Type::FLOAT32S:
      return value.cast<std::vector<float>>();
    case Type::FLOAT64S:
      return value.cast<std::vector<double>>();
    case Type::STRINGS:
      return value.cast<std::vector<std::string>>();
    case Type::SCALAR:
      return to_scalar(value);
    case Type::SCALARS: {
      std::vector<phi::Scalar> list;
      for (const py::handle item : value) list.push_back(to_scalar(item));
      return list;
    }
    case Type::INT_ARRAY:
      return phi::IntArray(value.cast<std::vector<int64_t>>());
    case Type::DATA_TYPE:
      return phi::StringToDataType(value.cast<std::string>());
    case Type::DATA_LAYOUT:
      return common::StringToDataLayout(value.cast<std::string>());
    default:
      return place;
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

// A tensor that Python describes: (dtype, sizes, strides, bytes). On the device, with the strides.
DenseTensor make(const py::handle& described, const phi::DeviceContext& context) {
  const auto parts = described.cast<std::tuple<std::string, std::vector<int64_t>, std::vector<int64_t>, py::bytes>>();
  const std::string bytes = std::get<3>(parts);
  const phi::DataType dtype = phi::StringToDataType(std::get<0>(parts));
  DenseTensor made;
  made.Resize(common::make_ddim({static_cast<int64_t>(bytes.size())}));
  void* to = context.Alloc(&made, phi::DataType::UINT8);
  if (!bytes.empty()) {
    Stream& stream = stream_of(context);
    stream.device.copy_to_device(to, bytes.data(), bytes.size(), stream);
    stream.synchronize();
  }
  const auto dims = common::make_ddim(std::get<1>(parts));
  phi::DenseTensorMeta meta(dtype, dims);
  meta.strides = common::make_ddim(std::get<2>(parts));
  made.set_meta(meta);
  return made;
}

class NewCall {
 public:
  NewCall(const PhiKernel& kernel, const std::string& device)
      : kernel_(kernel), context_(*phi::DeviceContextPool::Instance().Get(place_of(device))), given_(&context_) {}

  // Each output is None, the position of an input (flat) whose memory it has, or (dtype, sizes); or a list of them.
  py::list run(const py::list& inputs, const py::list& attributes, const py::list& outputs) {
    if (inputs.size() != kernel_.inputs.size() || attributes.size() != kernel_.attributes.size() ||
        outputs.size() != kernel_.outputs.size()) {
      throw Error(HP_INVALID_ARGUMENT, kernel_.op->name + " has other arguments in this Paddle");
    }
    for (size_t i = 0; i < inputs.size(); ++i) add_input(inputs[i], kernel_.inputs[i]);
    for (size_t i = 0; i < attributes.size(); ++i) {
      given_.EmplaceBackAttr(to_attribute(kernel_.attributes[i], attributes[i], context_.GetPlace()));
    }
    for (size_t i = 0; i < outputs.size(); ++i) add_output(outputs[i], kernel_.outputs[i]);
    {
      py::gil_scoped_release released;
      run_boxed(kernel_, given_);
    }
    py::list made;
    for (const DenseTensor* tensor : made_) made.append(seen(tensor));
    return made;
  }

 private:
  static phi::Place place_of(const std::string& device) {
    const size_t colon = device.find(':');
    const std::string name = device.substr(0, colon);
    return phi::CustomPlace(name, colon == std::string::npos ? 0 : std::stoi(device.substr(colon + 1)));
  }
  DenseTensor* input(const py::handle& described) {
    if (described.is_none()) return nullptr;
    DenseTensor* made = &tensors_.emplace_back(make(described, context_));
    inputs_.push_back(made);
    return made;
  }
  void add_input(const py::handle& described, InputKind kind) {
    if (kind == InputKind::kDense || kind == InputKind::kOptional) return given_.EmplaceBackInput(input(described));
    paddle::small_vector<const phi::TensorBase*> list;
    for (const py::handle item : described) list.push_back(input(item));
    if (list.empty() && kind == InputKind::kOptionalList) list.push_back(nullptr);
    given_.EmplaceBackInputs(list);
  }
  DenseTensor* output(const py::handle& described) {
    if (described.is_none()) return nullptr;
    DenseTensor* made = nullptr;
    if (py::isinstance<py::int_>(described)) {
      made = &tensors_.emplace_back(*inputs_.at(described.cast<size_t>()));
    } else {
      const auto [dtype, sizes] = described.cast<std::pair<std::string, std::vector<int64_t>>>();
      made = &tensors_.emplace_back();
      const phi::DenseTensorMeta meta(phi::StringToDataType(dtype), common::make_ddim(sizes));
      made->set_meta(meta);
    }
    made_.push_back(made);
    return made;
  }
  void add_output(const py::handle& described, bool is_list) {
    if (!is_list) return given_.EmplaceBackOutput(output(described));
    paddle::small_vector<phi::TensorBase*> list;
    for (const py::handle item : described) list.push_back(output(item));
    given_.EmplaceBackOutputs(list);
  }

  const PhiKernel& kernel_;
  phi::DeviceContext& context_;
  phi::KernelContext given_;
  std::deque<DenseTensor> tensors_;
  std::vector<DenseTensor*> inputs_, made_;
};

py::list call_kernel(const std::string& name, const std::string& dtype, const std::string& device,
                     const py::list& inputs, const py::list& attributes, const py::list& outputs) {
  const PhiKernel* kernel = find_kernel(name, phi::StringToDataType(dtype));
  if (kernel == nullptr) throw Error(HP_NOT_SUPPORTED, "this Paddle has no kernel " + name + " for " + dtype);
  return NewCall(*kernel, device).run(inputs, attributes, outputs);
}

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

void add_to_python(py::module_& module) {
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
  module.def("call_kernel", &call_kernel);
}

}  // namespace hp::paddle_adapter
