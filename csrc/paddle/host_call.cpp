#include "host_call.h"

#include <paddle/phi/backends/context_pool.h>
#include <paddle/phi/core/kernel_context.h>
#include <paddle/phi/core/kernel_factory.h>

#include "../core/copy_views.h"

namespace hp::paddle_adapter {
namespace {

bool is_narrow(phi::DataType dtype) { return dtype == phi::DataType::FLOAT16 || dtype == phi::DataType::BFLOAT16; }
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

// Whether a kernel for single precision is given inputs in 16 bits: Paddle's own for GPUs look at each dtype, the CPU's
// do not.
bool is_mixed(const Call& call) {
  if (call.kernel.dtype != phi::DataType::FLOAT32) return false;
  for (int i = 0; i < call.num_inputs(); ++i) {
    for (const DenseTensor* tensor : call.inputs(i)) {
      if (tensor != nullptr && tensor->initialized() && is_narrow(tensor->dtype())) return true;
    }
  }
  return false;
}

const phi::Kernel* in_double(const std::string& name) {
  const auto& all = phi::KernelFactory::Instance().kernels();
  const auto variants = all.find(name);
  if (variants == all.end()) return nullptr;
  const auto found = variants->second.find({phi::Backend::CPU, phi::DataLayout::ALL_LAYOUT, phi::DataType::FLOAT64});
  return found == variants->second.end() ? nullptr : &found->second;
}

void set_meta(DenseTensor& tensor, const DenseTensor& like, phi::DataType dtype) {
  phi::DenseTensorMeta meta(dtype, like.dims(), like.layout());
  if (meta.valid()) tensor.set_meta(meta);
}

size_t bytes_of(const DenseTensor& tensor) { return static_cast<size_t>(tensor.numel()) * phi::SizeOf(tensor.dtype()); }

}  // namespace

void convert_floats(void* to, phi::DataType to_dtype, const void* from, phi::DataType from_dtype, int64_t count) {
  with_float(to_dtype, [&](auto sample_to) {
    with_float(from_dtype, [&](auto sample_from) {
      using To = decltype(sample_to);
      using From = decltype(sample_from);
      // The 16-bit dtypes convert to and from single precision.
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

void HostCall::bring_inputs() {
  for (int i = 0; i < call_.num_inputs(); ++i) {
    for (const DenseTensor* given : call_.inputs(i)) {
      if (given != nullptr) inputs_.emplace_back(given, bring(*given));
    }
  }
  for (int i = 0; i < call_.num_outputs(); ++i) {
    for (const DenseTensor* given : call_.outputs(i)) {
      if (Source* shared = shared_with(given)) shared->written = true;
    }
  }
  if (copied_bytes_ != 0) stream_.synchronize();
  scratch_.clear();
}

HostCall::Source* HostCall::bring(const DenseTensor& given) {
  const bool there = given.initialized() && on_device(given);
  if (there && given.meta().is_contiguous()) {
    for (Source& known : sources_) {
      if (known.address == given.data() && known.host.numel() == given.numel() && known.host.dtype() == given.dtype()) {
        return &known;
      }
    }
  }
  Source& source = sources_.emplace_back();
  source.address = there ? given.data() : nullptr;
  source.written = false;
  if (given.initialized() && !there) {
    source.host = given;  // some kernels read small tensors on the host
    return &source;
  }
  set_meta(source.host, given, given.dtype());
  if (!there && given.numel() != 0) return &source;  // one whose sizes alone matter
  void* to = host_->Alloc(&source.host, given.dtype());
  const size_t bytes = bytes_of(given);
  if (bytes == 0) return &source;
  call_.device.copy_to_host(to, dense_bytes(given), bytes, stream_);
  copied_bytes_ += bytes;
  return &source;
}

// The elements one after another on the device.
const void* HostCall::dense_bytes(const DenseTensor& given) {
  if (given.meta().is_contiguous()) return given.data();
  View to = view(given);
  const auto strides = phi::DenseTensorMeta::calc_strides(given.dims());
  to.strides = strides.Get();
  to.data = scratch_.emplace_back(call_.device, to.bytes()).get();
  copy_views(call_.device, to, view(given));
  return to.data;
}

HostCall::Source* HostCall::shared_with(const DenseTensor* output) {
  if (output == nullptr || !output->initialized()) return nullptr;
  for (Source& source : sources_) {
    if (source.address != nullptr && source.address == output->data()) return &source;
  }
  return nullptr;
}

phi::DataType HostCall::host_dtype(phi::DataType dtype) const {
  if (floats_ == Floats::kDouble) return is_real(dtype) ? phi::DataType::FLOAT64 : dtype;
  const bool widened = mixed_ ? is_narrow(dtype) : call_.kernel.widened && dtype == call_.kernel.dtype;
  return widened ? phi::DataType::FLOAT32 : dtype;
}

DenseTensor* HostCall::working_input(const DenseTensor* given, bool again) {
  if (given == nullptr) return nullptr;
  Source* source = nullptr;
  for (const auto& [tensor, brought] : inputs_) {
    if (tensor == given) source = brought;
  }
  DenseTensor& host = source->host;
  const phi::DataType dtype = host_dtype(host.dtype());
  const bool converted = dtype != host.dtype();
  if (!source->working.initialized() && host.initialized() && (converted || (again && source->written))) {
    set_meta(source->working, host, dtype);
    void* to = host_->Alloc(&source->working, dtype);
    if (converted) {
      convert_floats(to, dtype, host.data(), host.dtype(), host.numel());
    } else if (host.numel() != 0) {
      std::memcpy(to, host.data(), bytes_of(host));
    }
  }
  DenseTensor& made = tensors_.emplace_back(source->working.initialized() ? source->working : host);
  if (made.dims() != given->dims()) made.Resize(given->dims());
  if (!host.initialized()) set_meta(made, *given, host_dtype(given->dtype()));
  return &made;
}

DenseTensor* HostCall::working_output(DenseTensor* given) {
  if (given == nullptr) return nullptr;
  DenseTensor& made = tensors_.emplace_back();
  set_meta(made, *given, host_dtype(given->dtype()));
  if (const Source* shared = shared_with(given)) {
    const phi::DenseTensorMeta meta = made.meta();
    made.ShareDataWith(shared->working.initialized() ? shared->working : shared->host);
    if (meta.valid()) made.set_meta(meta);
  }
  outputs_.push_back({given, &made});
  return &made;
}

bool HostCall::run(Floats floats, bool again) {
  const phi::Kernel* kernel = &call_.kernel.cpu;
  if (floats == Floats::kDouble) {
    kernel = is_real(call_.kernel.dtype) ? in_double(call_.kernel.name) : nullptr;
    if (kernel == nullptr) return false;
  }
  if (!kernel->IsValid()) return false;
  floats_ = floats;
  outputs_.clear();
  tensors_.clear();
  for (Source& source : sources_) source.working = DenseTensor();
  phi::KernelContext context(host_);
  for (int i = 0; i < call_.num_inputs(); ++i) {
    const InputKind kind = call_.kernel.inputs[i];
    if (kind == InputKind::kDense || kind == InputKind::kOptional) {
      context.EmplaceBackInput(working_input(call_.input(i), again));
      continue;
    }
    paddle::small_vector<const phi::TensorBase*> list;
    for (const DenseTensor* tensor : call_.inputs(i)) list.push_back(working_input(tensor, again));
    if (list.empty() && kind == InputKind::kOptionalList) list.push_back(nullptr);  // how a context says "absent"
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
