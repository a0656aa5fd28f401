#include "recurrent.h"

#include "../core/template_call.h"

namespace hp::ops {
namespace {

// Launches over the elements of a state, which is a matrix of batch and width.
bool launch(const Service& service, TemplateCall& call, const View& state, std::initializer_list<View> tensors) {
  PortableScope scope(service);
  if (!call.available()) return false;
  for (const View& tensor : tensors) call.arg(tensor);
  call.integer(state.sizes[0]).integer(state.sizes[1]).launch_elements(service.op, state.numel());
  return scope.done();
}

}  // namespace

bool lstm_cell(const Service& service, Device& device, const View& hy, const View& cy, const View& workspace,
               const View& input_gates, const View& hidden_gates, const View& cx, const View& input_bias,
               const View& hidden_bias) {
  if (call_vendor(service, device,
                  {output(hy), output(cy), output(workspace), input(input_gates), input(hidden_gates), input(cx),
                   input(input_bias), input(hidden_bias)})) {
    return true;
  }
  static TemplateKernels kernels("recurrent:lstm", {"T"}, {"BIAS"});
  if (!service.has_compiler || !is_float(hy.dtype)) return false;
  TemplateCall call(kernels, device, {hy.dtype}, {input_bias.defined()});
  return launch(service, call, hy, {hy, cy, workspace, input_gates, hidden_gates, cx, input_bias, hidden_bias});
}

bool lstm_cell_backward(const Service& service, Device& device, const View& grad_gates, const View& grad_cx,
                        const View& grad_hy, const View& grad_cy, const View& cx, const View& cy,
                        const View& workspace) {
  if (call_vendor(service, device,
                  {output(grad_gates), output(grad_cx), input(grad_hy), input(grad_cy), input(cx), input(cy),
                   input(workspace)})) {
    return true;
  }
  static TemplateKernels kernels("recurrent:lstm_backward", {"T"}, {"HIDDEN", "CELL"});
  if (!service.has_compiler || !is_float(cx.dtype)) return false;
  TemplateCall call(kernels, device, {cx.dtype}, {grad_hy.defined(), grad_cy.defined()});
  return launch(service, call, cx, {grad_gates, grad_cx, grad_hy, grad_cy, cx, cy, workspace});
}

bool gru_cell(const Service& service, Device& device, const View& hy, const View& workspace, const View& input_gates,
              const View& hidden_gates, const View& hx, const View& input_bias, const View& hidden_bias) {
  if (call_vendor(service, device,
                  {output(hy), output(workspace), input(input_gates), input(hidden_gates), input(hx), input(input_bias),
                   input(hidden_bias)})) {
    return true;
  }
  static TemplateKernels kernels("recurrent:gru", {"T"}, {"BIAS"});
  if (!service.has_compiler || !is_float(hy.dtype)) return false;
  TemplateCall call(kernels, device, {hy.dtype}, {input_bias.defined()});
  return launch(service, call, hy, {hy, workspace, input_gates, hidden_gates, hx, input_bias, hidden_bias});
}

bool gru_cell_backward(const Service& service, Device& device, const View& grad_input, const View& grad_hidden,
                       const View& grad_hx, const View& grad_hy, const View& workspace) {
  if (call_vendor(service, device,
                  {output(grad_input), output(grad_hidden), output(grad_hx), input(grad_hy), input(workspace)})) {
    return true;
  }
  static TemplateKernels kernels("recurrent:gru_backward", {"T"});
  if (!service.has_compiler || !is_float(grad_hx.dtype)) return false;
  TemplateCall call(kernels, device, {grad_hx.dtype});
  return launch(service, call, grad_hx, {grad_input, grad_hidden, grad_hx, grad_hy, workspace});
}

}  // namespace hp::ops
