// The operators in torch: schemas, kernels, shapes, gradient, autocast, and a Python binding.
#include <ATen/DLConvertor.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <array>

namespace {

using at::Tensor;

TORCH_LIBRARY(myops, m) {
  m.def("silu_mul(Tensor gate, Tensor up) -> Tensor");
  m.def("silu_mul_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)");
}

// ---- Argument checks, with the messages of torch's own operators

struct Named {
  const char* name;
  const Tensor& tensor;
};

void check(const char* op, std::initializer_list<Named> arguments) {
  const auto& [first_name, first] = *arguments.begin();
  TORCH_CHECK_NOT_IMPLEMENTED(first.is_floating_point(), '"', op, "\" not implemented for '",
                              toString(first.scalar_type()), "'");
  for (const auto& [name, other] : arguments) {
    TORCH_CHECK(other.scalar_type() == first.scalar_type(), "expected ", first_name, " and ", name,
                " to have the same dtype, but got: ", first.dtype(), " != ", other.dtype());
    TORCH_CHECK(other.device() == first.device(),
                "Expected all tensors to be on the same device, but found at least two devices, ", first.device(),
                " and ", other.device(), "!");
    TORCH_CHECK(other.sym_sizes() == first.sym_sizes(), "expected ", first_name, " and ", name,
                " to have the same shape, but got: ", first.sym_sizes(), " != ", other.sym_sizes());
  }
}

// ---- Kernels: TVM-FFI functions registered by myops/kernels.py

// Returns false if the kernel declines the call.
template <size_t N>
bool run(const char* name, const std::array<Tensor, N>& tensors) {
  std::array<DLTensor, N> views;
  std::array<tvm::ffi::AnyView, N> arguments;
  for (size_t i = 0; i < N; ++i) {
    const Tensor& t = tensors[i];
    const DLDevice device{t.is_cpu() ? kDLCPU : kDLExtDev, t.is_cpu() ? 0 : t.get_device()};
    views[i] = {t.data_ptr(),
                device,
                static_cast<int32_t>(t.dim()),
                at::getDLDataType(t),
                const_cast<int64_t*>(t.sizes().data()),
                const_cast<int64_t*>(t.strides().data()),
                0};
    arguments[i] = &views[i];
  }
  try {
    tvm::ffi::Any nothing;
    tvm::ffi::Function::GetGlobalRequired(name).CallPacked(arguments.data(), N, &nothing);
    return true;
  } catch (const tvm::ffi::Error& error) {
    if (std::string_view(error.kind()) != "NotImplementedError") TORCH_CHECK(false, name, ": ", error.what());
    return false;
  }
}

Tensor silu_mul(const Tensor& gate_given, const Tensor& up_given) {
  check("silu_mul", {{"gate", gate_given}, {"up", up_given}});
  const Tensor gate = gate_given.contiguous(), up = up_given.contiguous(), out = at::empty_like(gate);
  if (!run<3>("myops.silu_mul", {out, gate, up})) return at::mul(at::silu(gate), up);
  return out;
}

std::tuple<Tensor, Tensor> silu_mul_backward(const Tensor& grad_given, const Tensor& gate_given,
                                             const Tensor& up_given) {
  check("silu_mul_backward", {{"grad", grad_given}, {"gate", gate_given}, {"up", up_given}});
  const Tensor grad = grad_given.contiguous(), gate = gate_given.contiguous(), up = up_given.contiguous();
  const Tensor gate_grad = at::empty_like(gate), up_grad = at::empty_like(up);
  if (!run<5>("myops.silu_mul_backward", {gate_grad, up_grad, grad, gate, up}))
    return {at::silu_backward(at::mul(grad, up), gate), at::mul(at::silu(gate), grad)};
  return {gate_grad, up_grad};
}

TORCH_LIBRARY_IMPL(myops, CPU, m) {
  m.impl("silu_mul", &silu_mul);
  m.impl("silu_mul_backward", &silu_mul_backward);
}

TORCH_LIBRARY_IMPL(myops, PrivateUse1, m) {
  m.impl("silu_mul", &silu_mul);
  m.impl("silu_mul_backward", &silu_mul_backward);
}

// ---- Meta functions, for graph mode

Tensor like(const Tensor& x) { return at::empty_like(x, x.options(), at::MemoryFormat::Contiguous); }

TORCH_LIBRARY_IMPL(myops, Meta, m) {
  m.impl("silu_mul", [](const Tensor& gate, const Tensor& up) {
    check("silu_mul", {{"gate", gate}, {"up", up}});
    return like(gate);
  });
  m.impl("silu_mul_backward", [](const Tensor& grad, const Tensor& gate, const Tensor& up) {
    check("silu_mul_backward", {{"grad", grad}, {"gate", gate}, {"up", up}});
    return std::make_tuple(like(gate), like(up));
  });
}

// ---- Gradient

template <class Signature>
auto find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

Tensor call(const Tensor& gate, const Tensor& up) {
  static const auto op = find<Tensor(const Tensor&, const Tensor&)>("myops::silu_mul");
  return op.call(gate, up);
}

std::tuple<Tensor, Tensor> call_backward(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  static const auto op =
      find<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&)>("myops::silu_mul_backward");
  return op.call(grad, gate, up);
}

class SiluMul : public torch::autograd::Function<SiluMul> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& gate, const Tensor& up) {
    at::AutoDispatchBelowADInplaceOrView guard;
    context->save_for_backward({gate, up});
    return call(gate, up);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const auto [gate_grad, up_grad] = call_backward(grads[0], saved[0], saved[1]);
    return {gate_grad, up_grad};
  }
};

// Second derivative. It is rarely needed, so it uses torch operators instead of a kernel.
class SiluMulBackward : public torch::autograd::Function<SiluMulBackward> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const Tensor& grad,
                                                const Tensor& gate, const Tensor& up) {
    at::AutoDispatchBelowADInplaceOrView guard;
    context->save_for_backward({grad, gate, up});
    const auto [gate_grad, up_grad] = call_backward(grad, gate, up);
    return {gate_grad, up_grad};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &grad = saved[0], &gate = saved[1], &up = saved[2], s = at::sigmoid(gate);
    const Tensor slope = s * (1 + gate * (1 - s)), curve = s * (1 - s) * (2 + gate * (1 - 2 * s));
    return {grads[0] * up * slope + grads[1] * gate * s, grad * (grads[0] * up * curve + grads[1] * slope),
            grads[0] * grad * slope};
  }
};

Tensor silu_mul_autograd(const Tensor& gate, const Tensor& up) { return SiluMul::apply(gate, up); }
std::tuple<Tensor, Tensor> silu_mul_backward_autograd(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  const auto results = SiluMulBackward::apply(grad, gate, up);
  return {results[0], results[1]};
}

TORCH_LIBRARY_IMPL(myops, AutogradCPU, m) {
  m.impl("silu_mul", &silu_mul_autograd);
  m.impl("silu_mul_backward", &silu_mul_backward_autograd);
}
TORCH_LIBRARY_IMPL(myops, AutogradPrivateUse1, m) {
  m.impl("silu_mul", &silu_mul_autograd);
  m.impl("silu_mul_backward", &silu_mul_backward_autograd);
}

// ---- Autocast: compute in the dtype of the matrix products around the operator

template <c10::DeviceType device, c10::DispatchKey key>
Tensor silu_mul_autocast(const Tensor& gate, const Tensor& up) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(key);
  const auto dtype = at::autocast::get_autocast_dtype(device);
  return call(at::autocast::cached_cast(dtype, gate, device), at::autocast::cached_cast(dtype, up, device));
}

TORCH_LIBRARY_IMPL(myops, AutocastCPU, m) {
  m.impl("silu_mul", &silu_mul_autocast<at::kCPU, c10::DispatchKey::AutocastCPU>);
}
TORCH_LIBRARY_IMPL(myops, AutocastPrivateUse1, m) {
  m.impl("silu_mul", &silu_mul_autocast<at::kPrivateUse1, c10::DispatchKey::AutocastPrivateUse1>);
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("silu_mul", &call, "silu(gate) * up"); }
