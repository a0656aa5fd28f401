// The last tier: the CPU's kernel on copies of the inputs. Copies are ordered on Paddle's stream; in-place calls and
// outputs that share an input's memory keep doing so on the host, where kernels rely on it. A kernel that the CPU has
// in single precision only serves 16-bit floats as well: they are converted on the host.
#include <paddle/phi/backends/context_pool.h>
#include <paddle/phi/core/kernel_context.h>

#include <unordered_map>

#include "../core/copy_views.h"
#include "call.h"

namespace hp::paddle_adapter {
namespace {

template <class To, class From>
void convert_as(void* to, const void* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) static_cast<To*>(to)[i] = static_cast<To>(static_cast<const From*>(from)[i]);
}

bool is_narrow(phi::DataType dtype) { return dtype == phi::DataType::FLOAT16 || dtype == phi::DataType::BFLOAT16; }

// Kernels that Paddle calls in single precision with some arguments in 16 bits: its own for GPUs look at each dtype,
// the CPU's do not.
bool is_mixed(const PhiKernel& kernel) {
  return kernel.dtype == phi::DataType::FLOAT32 && kernel.name == "cross_entropy_with_softmax_grad";
}

// Between single precision and one of the 16-bit dtypes.
void widen(float* to, const void* from, phi::DataType dtype, int64_t count) {
  if (dtype == phi::DataType::FLOAT16) {
    convert_as<float, phi::dtype::float16>(to, from, count);
  } else {
    convert_as<float, phi::dtype::bfloat16>(to, from, count);
  }
}
void narrow(void* to, phi::DataType dtype, const float* from, int64_t count) {
  if (dtype == phi::DataType::FLOAT16) {
    convert_as<phi::dtype::float16, float>(to, from, count);
  } else {
    convert_as<phi::dtype::bfloat16, float>(to, from, count);
  }
}

// The tensors of one call on the host.
class Staging {
 public:
  explicit Staging(Call& call)
      : call_(call),
        stream_(current_stream(call.device)),
        host_(phi::DeviceContextPool::Instance().Get(phi::CPUPlace())),
        mixed_(is_mixed(call.kernel)) {}

  void run() {
    phi::KernelContext context(host_);
    for (int i = 0; i < call_.num_inputs(); ++i) add_input(context, i);
    for (int i = 0; i < call_.num_attributes(); ++i) add_attribute(context, i);
    for (int i = 0; i < call_.num_outputs(); ++i) add_output(context, i);
    if (queued_) stream_.synchronize();
    scratch_.clear();
    for (const Widened& each : widened_) {
      widen(each.to->data<float>(), each.bytes.data(), each.dtype, each.to->numel());
    }
    call_.kernel.cpu(&context);
    for (const Output& output : outputs_) bring_back(*output.given, *output.staged);
    if (queued_) stream_.synchronize();
  }

 private:
  struct Output {
    DenseTensor *given, *staged;
  };

  // A tensor that the CPU's kernel takes in single precision, and its bytes as they came.
  struct Widened {
    DenseTensor* to;
    phi::DataType dtype;
    std::vector<char> bytes;
  };
  bool is_widened(phi::DataType dtype) const {
    return mixed_ ? is_narrow(dtype) : call_.kernel.widened && dtype == call_.kernel.dtype;
  }
  phi::DataType host_dtype(phi::DataType dtype) const { return is_widened(dtype) ? phi::DataType::FLOAT32 : dtype; }

  void add_attribute(phi::KernelContext& context, int i) {
    if (call_.kernel.attributes[i] == phi::AttributeType::DATA_TYPE) {
      context.EmplaceBackAttr(host_dtype(call_.attr<phi::DataType>(i)));
    } else {
      context.EmplaceBackAttr(call_.attribute(i));
    }
  }

  void add_input(phi::KernelContext& context, int i) {
    const InputKind kind = call_.kernel.inputs[i];
    if (kind == InputKind::kDense || kind == InputKind::kOptional) {
      context.EmplaceBackInput(stage(call_.input(i)));
      return;
    }
    paddle::small_vector<const phi::TensorBase*> list;
    for (const DenseTensor* tensor : call_.inputs(i)) list.push_back(stage(tensor));
    if (list.empty() && kind == InputKind::kOptionalList) list.push_back(nullptr);  // how a context says "absent"
    context.EmplaceBackInputs(list);
  }

  void add_output(phi::KernelContext& context, int i) {
    if (!call_.kernel.outputs[i]) {
      context.EmplaceBackOutput(stage_output(call_.output(i)));
      return;
    }
    paddle::small_vector<phi::TensorBase*> list;
    for (DenseTensor* tensor : call_.outputs(i)) list.push_back(stage_output(tensor));
    context.EmplaceBackOutputs(list);
  }

  DenseTensor& make(const DenseTensor& like) {
    DenseTensor& made = tensors_.emplace_back();
    phi::DenseTensorMeta meta(host_dtype(like.dtype()), like.dims(), like.layout());
    if (meta.valid()) made.set_meta(meta);
    return made;
  }

  const DenseTensor* stage(const DenseTensor* given) {
    if (given == nullptr) return nullptr;
    if (given->initialized() && !on_device(*given)) return given;  // some kernels read small tensors on the host
    DenseTensor& staged = make(*given);
    if (given->numel() == 0) host_->Alloc(&staged, staged.dtype());
    if (!given->initialized()) return &staged;  // empty, or one whose sizes alone matter
    const auto known = staged_.find(given->data());
    if (known != staged_.end() && known->second->numel() == given->numel() &&
        known->second->dtype() == staged.dtype() && given->meta().is_contiguous()) {
      staged.ShareDataWith(*known->second);
      staged.Resize(given->dims());
      return &staged;
    }
    void* to = host_->Alloc(&staged, staged.dtype());
    const size_t bytes = static_cast<size_t>(given->numel()) * phi::SizeOf(given->dtype());
    staged_[given->data()] = &staged;
    if (bytes == 0) return &staged;
    if (staged.dtype() != given->dtype()) {
      to = widened_.emplace_back(Widened{&staged, given->dtype(), std::vector<char>(bytes)}).bytes.data();
    }
    call_.device.copy_to_host(to, dense_bytes(*given), bytes, stream_);
    queued_ = true;
    return &staged;
  }

  // The elements one after another on the device.
  const void* dense_bytes(const DenseTensor& given) {
    if (given.meta().is_contiguous()) return given.data();
    View to = view(given);
    const auto strides = phi::DenseTensorMeta::calc_strides(given.dims());
    to.strides = strides.Get();
    to.data = scratch_.emplace_back(call_.device, to.bytes()).get();
    copy_views(call_.device, to, view(given));
    return to.data;
  }

  DenseTensor* stage_output(DenseTensor* given) {
    if (given == nullptr) return nullptr;
    DenseTensor& staged = make(*given);
    if (given->initialized()) {
      const auto shared = staged_.find(given->data());
      if (shared != staged_.end()) {
        const phi::DenseTensorMeta meta = staged.meta();
        staged.ShareDataWith(*shared->second);
        if (meta.valid()) staged.set_meta(meta);
      }
    }
    outputs_.push_back({given, &staged});
    return &staged;
  }

  void bring_back(DenseTensor& given, const DenseTensor& staged) {
    if (!staged.has_allocation()) return;
    // A kernel may give another dtype than the shape rule said, but not for having been widened.
    const bool wide = is_widened(given.dtype()) && staged.dtype() == phi::DataType::FLOAT32;
    const phi::DataType dtype = wide ? given.dtype() : staged.dtype();
    const size_t bytes = static_cast<size_t>(staged.numel()) * phi::SizeOf(dtype);
    const void* from = bytes == 0 ? nullptr : staged.data();
    if (wide && bytes != 0) {
      narrowed_.emplace_back(bytes);
      narrow(narrowed_.back().data(), dtype, staged.data<float>(), staged.numel());
      from = narrowed_.back().data();
    }
    const bool kept =
        given.initialized() && on_device(given) && given.dims() == staged.dims() && given.dtype() == dtype;
    if (kept && !given.meta().is_contiguous()) {
      // A view with gaps: what lies between belongs to others.
      View dense = view(given);
      const auto strides = phi::DenseTensorMeta::calc_strides(given.dims());
      dense.strides = strides.Get();
      dense.data = scratch_.emplace_back(call_.device, dense.bytes()).get();
      copy_in(dense.data, from, bytes);
      copy_views(call_.device, view(given), dense);
      return;
    }
    if (!kept) {
      given.Resize(staged.dims());
      if (given.layout() != staged.layout()) {
        phi::DenseTensorMeta meta = given.meta();
        meta.layout = staged.layout();
        given.set_meta(meta);
      }
    }
    copy_in(call_.context.Alloc(&given, dtype), from, bytes);
  }

  void copy_in(void* to, const void* from, size_t bytes) {
    if (bytes == 0) return;
    call_.device.copy_to_device(to, from, bytes, stream_);
    queued_ = true;
  }

  Call& call_;
  Stream& stream_;
  phi::DeviceContext* host_;
  const bool mixed_;
  std::deque<DenseTensor> tensors_;
  std::deque<Scratch> scratch_;
  std::unordered_map<const void*, const DenseTensor*> staged_;  // by address on the device
  std::vector<Output> outputs_;
  std::deque<Widened> widened_;
  std::deque<std::vector<char>> narrowed_;
  bool queued_ = false;
};

}  // namespace

void cpu_tier(Call& call) {
  Operator& op = *call.kernel.op;
  if (!call.kernel.cpu.IsValid()) {
    throw Error(HP_NOT_SUPPORTED, "the device has no kernel for these arguments, and Paddle has none for the CPU");
  }
  OperatorScope scope(op);
  op.count(Tier::kCpu);
  if (observed()) notify({op, Tier::kCpu, true, nullptr});
  auto staging = std::make_unique<Staging>(call);
  try {
    staging->run();
  } catch (const Error& error) {
    if (error.status == HP_TIMEOUT) staging.release();  // queued copies may still use its memory
    throw;
  }
  if (observed()) notify({op, Tier::kCpu, false, nullptr});
}

}  // namespace hp::paddle_adapter
