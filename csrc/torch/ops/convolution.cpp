#include "ops/convolution.h"

#include <ATen/native/ConvUtils.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>

#include "core/dispatch/cpu_tier_call.h"
#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

using Gradients = std::tuple<Tensor, Tensor, Tensor>;

hp::ops::ConvolutionAttributes attributes(at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                          bool transposed, at::IntArrayRef output_padding, int64_t groups) {
  return {stride.data(), padding.data(), dilation.data(), output_padding.data(), static_cast<int>(stride.size()),
          transposed,    groups};
}

// A tensor of the given sizes, in the memory format of the operands.
Tensor make_like(at::IntArrayRef sizes, const Tensor& input, const Tensor& weight) {
  at::MemoryFormat format = input.suggest_memory_format();
  if (format == at::MemoryFormat::Contiguous) format = weight.suggest_memory_format();
  if (format == at::MemoryFormat::Contiguous) return empty(sizes, input.scalar_type(), input.device().index());
  const auto strides = format == at::MemoryFormat::ChannelsLast ? c10::get_channels_last_strides_2d(sizes)
                                                                : c10::get_channels_last_strides_3d(sizes);
  return empty_strided(sizes, strides, input.scalar_type(), input.device().index());
}

const hp::Kernel* vendor_kernel(bool of_input) {
  static const KernelSlot &input = KernelRegistry::slot(runtime(), "convolution_backward_input"),
                          &weight = KernelRegistry::slot(runtime(), "convolution_backward_weight");
  return of_input ? input.get() : weight.get();
}

// int64 is the only integer dtype that torch supports.
bool is_supported_dtype(at::ScalarType dtype) { return at::isFloatingType(dtype) || dtype == at::kLong; }

bool can_run(const Overload& overload, const Tensor& input, const Tensor& weight, const Tensor& third) {
  return (overload.can_serve() || vendor_kernel(true) != nullptr || vendor_kernel(false) != nullptr) &&
         all_on_device(input, weight, third) && input.dim() >= 3 && input.dim() <= 5 && weight.dim() == input.dim() &&
         is_supported_dtype(input.scalar_type()) && weight.scalar_type() == input.scalar_type() &&
         input.device() == weight.device() && weight.numel() != 0;
}

// The CPU tier, called directly: the boxed fallback would not reach a CPU kernel.
Tensor convolution_on_cpu(const Overload& overload, const Tensor& input, const Tensor& weight,
                          const OptionalTensor& bias, at::IntArrayRef stride, at::IntArrayRef padding,
                          at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding, int64_t groups) {
  CpuTierCall call(overload.op);
  const OptionalTensor host_bias = bias && bias->defined() ? OptionalTensor(bias->cpu()) : std::nullopt;
  const Tensor result = at::convolution(input.cpu(), weight.cpu(), host_bias, stride, padding, dilation, transposed,
                                        output_padding, groups)
                            .to(input.device());
  call.done(input.nbytes() + weight.nbytes() + (host_bias ? host_bias->nbytes() : 0) + result.nbytes());
  return result;
}

std::optional<Tensor> convolution(const Overload& overload, const Tensor& input, const Tensor& weight,
                                  const OptionalTensor& bias, at::IntArrayRef stride, at::IntArrayRef padding,
                                  at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
                                  int64_t groups) {
  const bool with_bias = bias && bias->defined();
  check_same_device(overload, {&input, &weight, with_bias ? &*bias : &input});
  if (can_run(overload, input, weight, with_bias ? *bias : input) &&
      (!with_bias || bias->scalar_type() == input.scalar_type())) {
    const auto sizes = transposed
                           ? at::native::conv_input_size(input.sizes(), weight.sizes(), padding, output_padding, stride,
                                                         dilation, groups)
                           : at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
    Tensor out = make_like(sizes, input, weight);
    if (out.numel() == 0) return out;
    const Tensor dense_bias = with_bias ? bias->contiguous() : Tensor();
    if (hp::ops::convolution(overload, device_holding(input), view(out), view(input), view(weight), view(dense_bias),
                             attributes(stride, padding, dilation, transposed, output_padding, groups)))
      return out;
  }
  return convolution_on_cpu(overload, input, weight, bias, stride, padding, dilation, transposed, output_padding,
                            groups);
}

std::optional<Gradients> convolution_backward(const Overload& overload, const Tensor& grad, const Tensor& input,
                                              const Tensor& weight, at::IntArrayRef stride, at::IntArrayRef padding,
                                              at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
                                              int64_t groups, std::array<bool, 3> mask) {
  check_same_device(overload, {&input, &weight, &grad});
  if (can_run(overload, input, weight, grad) && grad.scalar_type() == input.scalar_type()) {
    const int device = input.device().index();
    Tensor grad_input = mask[0] ? make_like(input.sizes(), input, weight) : Tensor();
    Tensor grad_weight = mask[1] ? make_like(weight.sizes(), input, weight) : Tensor();
    Tensor grad_bias = mask[2] ? empty({grad.size(1)}, grad.scalar_type(), device) : Tensor();
    if (grad.numel() == 0) {
      for (const Tensor& tensor : {grad_input, grad_weight, grad_bias}) {
        if (tensor.defined()) tensor.zero_();
      }
      return Gradients(grad_input, grad_weight, grad_bias);
    }
    if (hp::ops::convolution_backward(overload, vendor_kernel(true), vendor_kernel(false), device_holding(input),
                                      view(grad_input), view(grad_weight), view(grad_bias), view(grad), view(input),
                                      view(weight),
                                      attributes(stride, padding, dilation, transposed, output_padding, groups)))
      return Gradients(grad_input, grad_weight, grad_bias);
  }
  CpuTierCall call(overload.op);
  const std::vector<int64_t> bias_sizes{grad.size(1)};
  auto [grad_input, grad_weight, grad_bias] =
      at::convolution_backward(grad.cpu(), input.cpu(), weight.cpu(), at::OptionalIntArrayRef(bias_sizes), stride,
                               padding, dilation, transposed, output_padding, groups, mask);
  size_t copied = grad.nbytes() + input.nbytes() + weight.nbytes();
  const auto to_device = [&](const Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    copied += tensor.nbytes();
    return tensor.to(input.device());
  };
  const Gradients gradients(to_device(grad_input), to_device(grad_weight), to_device(grad_bias));
  call.done(copied);
  return gradients;
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/convolution.inc"
