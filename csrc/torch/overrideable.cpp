// Operators whose composite form ends in one that has no CPU kernel: convolution.
#include <ATen/core/Tensor.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>

#include "adapter.h"

namespace hp::torch_adapter {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// Convolution as the CPU tier would run it, if the boxed way could reach its CPU kernel.
Tensor convolution(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, c10::SymIntArrayRef stride,
                   c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
                   c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  static Operator& op = Operator::intern("aten::convolution_overrideable");
  op.count(Tier::kCpu);
  const OptionalTensor host_bias = bias && bias->defined() ? OptionalTensor(bias->cpu()) : std::nullopt;
  return at::convolution_symint(input.cpu(), weight.cpu(), host_bias, stride, padding, dilation, transposed,
                                output_padding, std::move(groups))
      .to(input.device());
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& grad, const Tensor& input, const Tensor& weight,
                                                        c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                                                        c10::SymIntArrayRef dilation, bool transposed,
                                                        c10::SymIntArrayRef output_padding, c10::SymInt groups,
                                                        std::array<bool, 3> mask) {
  static Operator& op = Operator::intern("aten::convolution_backward_overrideable");
  op.count(Tier::kCpu);
  const std::vector<c10::SymInt> bias_sizes{transposed ? weight.sym_size(1) * groups : weight.sym_size(0)};
  auto [grad_input, grad_weight, grad_bias] =
      at::convolution_backward_symint(grad.cpu(), input.cpu(), weight.cpu(), at::OptionalSymIntArrayRef(bias_sizes),
                                      stride, padding, dilation, transposed, output_padding, groups, mask);
  auto up = [&](const Tensor& tensor) { return tensor.defined() ? tensor.to(input.device()) : tensor; };
  return {up(grad_input), up(grad_weight), up(grad_bias)};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", TORCH_FN(convolution));
  m.impl("convolution_backward_overrideable", TORCH_FN(convolution_backward));
}

}  // namespace hp::torch_adapter
