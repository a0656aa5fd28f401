#include "dispatch/host_call.h"

#include <paddle/phi/backends/context_pool.h>
#include <paddle/phi/core/kernel_context.h>
#include <paddle/phi/core/kernel_factory.h>

#include "core/tensor/copy_views.h"

namespace hp::paddle_adapter {
namespace {

bool is_real(phi::DataType dtype) {
  return is_narrow(dtype) || dtype == phi::DataType::FLOAT32 || dtype == phi::DataType::FLOAT64;
}

template <class Function>
void with_float(phi::DataType dtype, Function&& function) {
  switch (dtype) {
    case phi::DataType::FLOAT16:
      return function(phi::dtype::float16());
    case phi::DataType::BFLOAT16:
      return function(phi::dtype::bfloat16());
    case phi::DataType::FLOAT32:
      return function(float());
    default:
      return function(double());
  }
}

// Whether a float32 kernel is called with 16-bit float inputs. Paddle's GPU kernels check the dtype of each input; its
// CPU kernels do not.
bool is_mixed(const Call& call) {
  if (call.kernel.dtype != phi::DataType::FLOAT32) return false;
  for (int i = 0; i < call.num_inputs(); ++i) {
    for (const DenseTensor* tensor : call.inputs(i)) {
      if (tensor != nullptr && tensor->initialized() && is_narrow(tensor->dtype())) return true;
    }
  }
  return false;
}

const phi::Kernel* find_double_kernel(const std::string& name) {
  const auto& all = phi::KernelFactory::Instance().kernels();
  const auto variants = all.find(name);
  if (variants == all.end()) return nullptr;
  const auto found = variants->second.find({phi::Backend::CPU, phi::DataLayout::ALL_LAYOUT, phi::DataType::FLOAT64});
  return found == variants->second.end() ? nullptr : &found->second;
}

void set_meta(DenseTensor& tensor, const DenseTensor& like, phi::DataType dtype) {
  phi::DenseTensorMeta meta(dtype, like.dims(), like.layout(), like.lod());
  if (meta.valid()) return tensor.set_meta(meta);
  // A size is not known yet: the kernel completes the shape.
  tensor.Resize(like.dims());
  tensor.ResetLoD(like.lod());
  tensor.set_type(dtype);
}

// The address of the first element. `data()` rejects an output that still has smaller memory from an earlier call.
const void* address_of(const DenseTensor& tensor) {
  return static_cast<const char*>(tensor.Holder()->ptr()) + tensor.meta().offset;
}

size_t bytes_of(const DenseTensor& tensor) { return static_cast<size_t>(tensor.numel()) * phi::SizeOf(tensor.dtype()); }

}  // namespace

void convert_floats(void* to, phi::DataType to_dtype, const void* from, phi::DataType from_dtype, int64_t count) {
  with_float(to_dtype, [&](auto sample_to) {
    with_float(from_dtype, [&](auto sample_from) {
      using To = decltype(sample_to);
      using From = decltype(sample_from);
      // 16-bit floats only convert to and from float.
      using Through = std::conditional_t<std::is_same_v<From, double>, double, float>;
      for (int64_t i = 0; i < count; ++i) {
        const Through value = static_cast<Through>(static_cast<const From*>(from)[i]);
        static_cast<To*>(to)[i] = static_cast<To>(value);
      }
    });
  });
}

HostCall::HostCall(Call& call)
    : call_(call),
      stream_(current_stream(call.device)),
      host_(phi::DeviceContextPool::Instance().Get(phi::CPUPlace())),
      mixed_(is_mixed(call)) {}

void HostCall::copy_inputs() {
  for (int i = 0; i < call_.num_inputs(); ++i) {
    for (const DenseTensor* input : call_.inputs(i)) {
      if (input != nullptr) inputs_.emplace_back(input, stage_input(*input));
    }
  }
  for (int i = 0; i < call_.num_outputs(); ++i) {
    for (const DenseTensor* output : call_.outputs(i)) {
      if (Source* shared = shared_with(output)) shared->written = true;
    }
  }
  if (copied_bytes_ != 0) stream_.synchronize();
  scratch_.clear();
}

HostCall::Source* HostCall::stage_input(const DenseTensor& input) {
  const bool resident = input.initialized() && on_device(input);
  if (resident && input.meta().is_contiguous()) {
    for (Source& known : sources_) {
      if (known.address == input.data() && known.host.numel() == input.numel() && known.host.dtype() == input.dtype()) {
        return &known;
      }
    }
  }
  Source& source = sources_.emplace_back();
  source.address = resident ? input.data() : nullptr;
  source.written = false;
  if (input.initialized() && !resident) {
    source.host = input;  // some kernels take small tensors on the host
    return &source;
  }
  set_meta(source.host, input, input.dtype());
  if (!resident && input.numel() != 0) return &source;  // no memory: only the shape is used
  void* to = host_->Alloc(&source.host, input.dtype());
  const size_t bytes = bytes_of(input);
  if (bytes == 0) return &source;
  call_.device.copy_to_host(to, dense_bytes(input), bytes, stream_);
  copied_bytes_ += bytes;
  return &source;
}

// The input's elements in contiguous device memory: its own, or a scratch copy.
const void* HostCall::dense_bytes(const DenseTensor& input) {
  if (input.meta().is_contiguous()) return input.data();
  View to = view(input);
  const auto strides = phi::DenseTensorMeta::calc_strides(input.dims());
  to.strides = strides.Get();
  to.data = scratch_.emplace_back(call_.device, to.bytes()).get();
  copy_views(call_.device, to, view(input));
  return to.data;
}

HostCall::Source* HostCall::shared_with(const DenseTensor* output) {
  if (output == nullptr || !output->initialized()) return nullptr;
  for (Source& source : sources_) {
    if (source.address != nullptr && source.address == address_of(*output)) return &source;
  }
  return nullptr;
}

phi::DataType HostCall::host_dtype(phi::DataType dtype) const {
  if (floats_ == FloatMode::kDouble) return is_real(dtype) ? phi::DataType::FLOAT64 : dtype;
  const bool widened = mixed_ ? is_narrow(dtype) : call_.kernel.widened && dtype == call_.kernel.dtype;
  return widened ? phi::DataType::FLOAT32 : dtype;
}

DenseTensor* HostCall::working_input(const DenseTensor* input, bool keep_inputs) {
  if (input == nullptr) return nullptr;
  Source* source = nullptr;
  for (const auto& [tensor, staged] : inputs_) {
    if (tensor == input) source = staged;
  }
  DenseTensor& host = source->host;
  const phi::DataType dtype = host_dtype(host.dtype());
  const bool converted = dtype != host.dtype();
  if (!source->working.initialized() && host.initialized() && (converted || (keep_inputs && source->written))) {
    set_meta(source->working, host, dtype);
    void* to = host_->Alloc(&source->working, dtype);
    if (converted) {
      convert_floats(to, dtype, host.data(), host.dtype(), host.numel());
    } else if (host.numel() != 0) {
      std::memcpy(to, host.data(), bytes_of(host));
    }
  }
  DenseTensor& argument = tensors_.emplace_back(source->working.initialized() ? source->working : host);
  if (argument.dims() != input->dims()) argument.Resize(input->dims());
  if (argument.lod() != input->lod()) argument.ResetLoD(input->lod());
  if (!host.initialized()) set_meta(argument, *input, host_dtype(input->dtype()));
  input_arguments_.emplace_back(input, &argument);
  return &argument;
}

DenseTensor* HostCall::working_output(DenseTensor* output) {
  if (output == nullptr) return nullptr;
  for (const auto& [input, same] : input_arguments_) {
    if (input == output) return outputs_.push_back({output, same}), same;
  }
  DenseTensor& argument = tensors_.emplace_back();
  set_meta(argument, *output, host_dtype(output->dtype()));
  if (const Source* shared = shared_with(output)) {
    const phi::DenseTensorMeta meta = argument.meta();
    argument.ShareDataWith(shared->working.initialized() ? shared->working : shared->host);
    if (meta.valid()) argument.set_meta(meta);
  }
  outputs_.push_back({output, &argument});
  return &argument;
}

bool HostCall::run(FloatMode floats, bool keep_inputs) {
  const phi::Kernel* kernel = &call_.kernel.cpu;
  if (floats == FloatMode::kDouble) {
    kernel = is_real(call_.kernel.dtype) ? find_double_kernel(call_.kernel.name) : nullptr;
    if (kernel == nullptr) return false;
  }
  if (!kernel->IsValid()) return false;
  floats_ = floats;
  outputs_.clear();
  tensors_.clear();
  input_arguments_.clear();
  for (Source& source : sources_) source.working = DenseTensor();
  phi::KernelContext context(host_);
  for (int i = 0; i < call_.num_inputs(); ++i) {
    const InputKind kind = call_.kernel.inputs[i];
    if (!is_list(kind)) {
      context.EmplaceBackInput(working_input(call_.input(i), keep_inputs));
      continue;
    }
    paddle::small_vector<const phi::TensorBase*> list;
    for (const DenseTensor* tensor : call_.inputs(i)) list.push_back(working_input(tensor, keep_inputs));
    if (list.empty() && kind == InputKind::kOptionalList) list.push_back(nullptr);  // an absent list in a KernelContext
    context.EmplaceBackInputs(list);
  }
  for (int i = 0; i < call_.num_attributes(); ++i) {
    if (call_.kernel.attributes[i] == phi::AttributeType::DATA_TYPE) {
      context.EmplaceBackAttr(host_dtype(call_.attr<phi::DataType>(i)));
    } else {
      context.EmplaceBackAttr(call_.attribute(i));
    }
  }
  for (int i = 0; i < call_.num_outputs(); ++i) {
    if (!call_.kernel.outputs[i]) {
      context.EmplaceBackOutput(working_output(call_.output(i)));
      continue;
    }
    paddle::small_vector<phi::TensorBase*> list;
    for (DenseTensor* tensor : call_.outputs(i)) list.push_back(working_output(tensor));
    context.EmplaceBackOutputs(list);
  }
  (*kernel)(&context);
  return true;
}

}  // namespace hp::paddle_adapter
