#include "dispatch/call_replay.h"

#include <paddle/phi/common/scalar.h>
#include <paddle/phi/core/kernel_context.h>
#include <pybind11/complex.h>

#include "dispatch/python_tensor.h"

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

// Creates a device tensor from (dtype, sizes, strides, bytes).
DenseTensor make_tensor(const py::handle& description, const phi::DeviceContext& context) {
  const auto [dtype, sizes, strides, content] =
      description.cast<std::tuple<std::string, std::vector<int64_t>, std::vector<int64_t>, py::bytes>>();
  const std::string bytes = content;
  DenseTensor tensor;
  tensor.Resize(common::make_ddim({static_cast<int64_t>(bytes.size())}));
  void* to = context.Alloc(&tensor, phi::DataType::UINT8);
  if (!bytes.empty()) {
    Stream& stream = stream_of(context);
    stream.device.copy_to_device(to, bytes.data(), bytes.size(), stream);
    stream.synchronize();
  }
  phi::DenseTensorMeta meta(phi::StringToDataType(dtype), common::make_ddim(sizes));
  meta.strides = common::make_ddim(strides);
  tensor.set_meta(meta);
  return tensor;
}

class ReplayedCall {
 public:
  ReplayedCall(const PhiKernel& kernel, const std::string& device)
      : kernel_(kernel),
        context_(*phi::DeviceContextPool::Instance().Get(place_of(device))),
        kernel_context_(&context_) {}

  // Each output is None, the flat index of the input whose memory it shares, (dtype, sizes), or a list of these.
  // Returns the outputs that are not None, in order. Call once.
  py::list run(const py::list& inputs, const py::list& attributes, const py::list& outputs) {
    if (inputs.size() != kernel_.inputs.size() || attributes.size() != kernel_.attributes.size() ||
        outputs.size() != kernel_.outputs.size()) {
      throw Error(HP_INVALID_ARGUMENT, "the saved call of " + kernel_.op->name +
                                           " has other arguments than this Paddle's " +
                                           "kernel: replay it with the Paddle version that saved it");
    }
    for (size_t i = 0; i < inputs.size(); ++i) add_input(inputs[i], kernel_.inputs[i]);
    for (size_t i = 0; i < attributes.size(); ++i) {
      kernel_context_.EmplaceBackAttr(to_attribute(kernel_.attributes[i], attributes[i], context_.GetPlace()));
    }
    for (size_t i = 0; i < outputs.size(); ++i) add_output(outputs[i], kernel_.outputs[i]);
    {
      py::gil_scoped_release released;
      run_boxed(kernel_, kernel_context_);
    }
    py::list results;
    for (const DenseTensor* tensor : outputs_) results.append(to_python_tensor(tensor));
    return results;
  }

 private:
  static phi::Place place_of(const std::string& device) {
    const size_t colon = device.find(':');
    const std::string name = device.substr(0, colon);
    return phi::CustomPlace(name, colon == std::string::npos ? 0 : std::stoi(device.substr(colon + 1)));
  }
  DenseTensor* make_input(const py::handle& description) {
    if (description.is_none()) return nullptr;
    return inputs_.emplace_back(&tensors_.emplace_back(make_tensor(description, context_)));
  }
  void add_input(const py::handle& description, InputKind kind) {
    if (!is_list(kind)) return kernel_context_.EmplaceBackInput(make_input(description));
    paddle::small_vector<const phi::TensorBase*> list;
    for (const py::handle item : description) list.push_back(make_input(item));
    if (list.empty() && kind == InputKind::kOptionalList) list.push_back(nullptr);
    kernel_context_.EmplaceBackInputs(list);
  }
  DenseTensor* make_output(const py::handle& description) {
    if (description.is_none()) return nullptr;
    DenseTensor* tensor = nullptr;
    if (py::isinstance<py::int_>(description)) {
      tensor = &tensors_.emplace_back(*inputs_.at(description.cast<size_t>()));
    } else {
      const auto [dtype, sizes] = description.cast<std::pair<std::string, std::vector<int64_t>>>();
      tensor = &tensors_.emplace_back();
      // Not a temporary: set_meta(DenseTensorMeta&&) refuses a tensor without metadata.
      const phi::DenseTensorMeta meta(phi::StringToDataType(dtype), common::make_ddim(sizes));
      tensor->set_meta(meta);
    }
    return outputs_.emplace_back(tensor);
  }
  void add_output(const py::handle& description, bool is_list) {
    if (!is_list) return kernel_context_.EmplaceBackOutput(make_output(description));
    paddle::small_vector<phi::TensorBase*> list;
    for (const py::handle item : description) list.push_back(make_output(item));
    kernel_context_.EmplaceBackOutputs(list);
  }

  const PhiKernel& kernel_;
  phi::DeviceContext& context_;
  phi::KernelContext kernel_context_;
  std::deque<DenseTensor> tensors_;
  std::vector<DenseTensor*> inputs_, outputs_;  // in tensors_
};

py::list call_kernel(const std::string& name, const std::string& dtype, const std::string& device,
                     const py::list& inputs, const py::list& attributes, const py::list& outputs) {
  const PhiKernel* kernel = find_kernel(name, phi::StringToDataType(dtype));
  if (kernel == nullptr) throw Error(HP_NOT_SUPPORTED, "this Paddle has no kernel '" + name + "' for " + dtype);
  return ReplayedCall(*kernel, device).run(inputs, attributes, outputs);
}

}  // namespace

void bind_call_replay(py::module_& module) { module.def("call_kernel", &call_kernel); }

}  // namespace hp::paddle_adapter
