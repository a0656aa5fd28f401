#include "replay.h"

#include <paddle/phi/common/scalar.h>
#include <paddle/phi/core/kernel_context.h>
#include <pybind11/complex.h>

#include "seen.h"

namespace py = pybind11;

namespace hp::paddle_adapter {
namespace {

phi::Scalar to_scalar(const py::handle& value) {
  if (py::isinstance<py::bool_>(value)) return phi::Scalar(value.cast<bool>());
  if (py::isinstance<py::int_>(value)) return phi::Scalar(value.cast<int64_t>());
  if (py::isinstance<py::float_>(value)) return phi::Scalar(value.cast<double>());
  const auto complex = value.cast<std::complex<double>>();
  return phi::Scalar(phi::dtype::complex<double>(complex.real(), complex.imag()));
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

void add_replay(py::module_& module) { module.def("call_kernel", &call_kernel); }

}  // namespace hp::paddle_adapter
