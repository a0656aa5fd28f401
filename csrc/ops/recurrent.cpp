#include "ops/recurrent.h"

#include "core/dispatch/template_call.h"

namespace hp::ops {
namespace {

// Launches over the elements of a state, a batch x width matrix.
bool launch(const OpBinding& binding, TemplateCall& call, const View& state, std::initializer_list<View> tensors) {
  for (const View& tensor : tensors) call.arg(tensor);
  return call.integer(state.sizes[0]).integer(state.sizes[1]).run_elements(binding, state.numel());
}

}  // namespace

bool lstm_cell(const OpBinding& binding, Device& device, const View& hy, const View& cy, const View& workspace,
               const View& input_gates, const View& hidden_gates, const View& cx, const View& input_bias,
               const View& hidden_bias) {
  if (call_vendor(binding, device,
                  {output(hy), output(cy), output(workspace), input(input_gates), input(hidden_gates), input(cx),
                   input(input_bias), input(hidden_bias)})) {
    return true;
  }
  static KernelTemplate kernels("recurrent:lstm", {"T"}, {"BIAS"});
  if (!binding.portable_allowed || !is_float(hy.dtype)) return false;
  TemplateCall call(kernels, device, {hy.dtype}, {input_bias.defined()});
  return launch(binding, call, hy, {hy, cy, workspace, input_gates, hidden_gates, cx, input_bias, hidden_bias});
}

bool lstm_cell_backward(const OpBinding& binding, Device& device, const View& grad_gates, const View& grad_cx,
                        const View& grad_hy, const View& grad_cy, const View& cx, const View& cy,
                        const View& workspace) {
  if (call_vendor(binding, device,
                  {output(grad_gates), output(grad_cx), input(grad_hy), input(grad_cy), input(cx), input(cy),
                   input(workspace)})) {
    return true;
  }
  static KernelTemplate kernels("recurrent:lstm_backward", {"T"}, {"HIDDEN", "CELL"});
  if (!binding.portable_allowed || !is_float(cx.dtype)) return false;
  TemplateCall call(kernels, device, {cx.dtype}, {grad_hy.defined(), grad_cy.defined()});
  return launch(binding, call, cx, {grad_gates, grad_cx, grad_hy, grad_cy, cx, cy, workspace});
}

bool gru_cell(const OpBinding& binding, Device& device, const View& hy, const View& workspace, const View& input_gates,
              const View& hidden_gates, const View& hx, const View& input_bias, const View& hidden_bias) {
  if (call_vendor(binding, device,
                  {output(hy), output(workspace), input(input_gates), input(hidden_gates), input(hx), input(input_bias),
                   input(hidden_bias)})) {
    return true;
  }
  static KernelTemplate kernels("recurrent:gru", {"T"}, {"BIAS"});
  if (!binding.portable_allowed || !is_float(hy.dtype)) return false;
  TemplateCall call(kernels, device, {hy.dtype}, {input_bias.defined()});
  return launch(binding, call, hy, {hy, workspace, input_gates, hidden_gates, hx, input_bias, hidden_bias});
}

bool gru_cell_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad_hidden,
                       const View& grad_hx, const View& grad_hy, const View& workspace) {
  if (call_vendor(binding, device,
                  {output(grad_input), output(grad_hidden), output(grad_hx), input(grad_hy), input(workspace)})) {
    return true;
  }
  static KernelTemplate kernels("recurrent:gru_backward", {"T"});
  if (!binding.portable_allowed || !is_float(grad_hx.dtype)) return false;
  TemplateCall call(kernels, device, {grad_hx.dtype});
  return launch(binding, call, grad_hx, {grad_input, grad_hidden, grad_hx, grad_hy, workspace});
}

}  // namespace hp::ops
