#include "ops/recurrent.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

Tensor with_bias(const Tensor& gates, const OptionalTensor& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

// The cells composed of other operators, for devices without a kernel; torch has none for the CPU either. The workspace
// stores the activated gates, in the order of the weights.
std::tuple<Tensor, Tensor, Tensor> compose_lstm(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                                const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const Tensor gates = with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias);
  const auto parts = gates.chunk(4, 1);
  const Tensor in = parts[0].sigmoid(), forget = parts[1].sigmoid(), cell = parts[2].tanh(), out = parts[3].sigmoid();
  const Tensor cy = forget * cx + in * cell;
  return {out * cy.tanh(), cy, at::cat({in, forget, cell, out}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> compose_lstm_backward(const OptionalTensor& grad_hy, const OptionalTensor& grad_cy,
                                                         const Tensor& cx, const Tensor& cy, const Tensor& workspace,
                                                         bool has_bias) {
  const bool has_hy = grad_hy && grad_hy->defined(), has_cy = grad_cy && grad_cy->defined();
  if (!has_hy && !has_cy) return {};
  const auto parts = workspace.chunk(4, 1);
  const Tensor &in = parts[0], &forget = parts[1], &cell = parts[2], &out = parts[3];
  const Tensor tanh_cy = cy.tanh();
  Tensor grad_cell = has_cy ? *grad_cy : Tensor();
  if (has_hy) {
    const Tensor through = *grad_hy * out * (1 - tanh_cy * tanh_cy);
    grad_cell = has_cy ? grad_cell + through : through;
  }
  const Tensor grad_out = has_hy ? *grad_hy * tanh_cy * out * (1 - out) : at::zeros_like(out);
  const Tensor grad_gates = at::cat({grad_cell * cell * in * (1 - in), grad_cell * cx * forget * (1 - forget),
                                     grad_cell * in * (1 - cell * cell), grad_out},
                                    1);
  return {grad_gates, grad_cell * forget, has_bias ? grad_gates.sum(0) : Tensor()};
}

std::tuple<Tensor, Tensor> compose_gru(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                       const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const auto in = with_bias(input_gates, input_bias).chunk(3, 1);
  const auto hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor reset = (in[0] + hidden[0]).sigmoid(), update = (in[1] + hidden[1]).sigmoid();
  const Tensor fresh = (in[2] + reset * hidden[2]).tanh();
  return {fresh + update * (hx - fresh), at::cat({reset, update, fresh, hx, hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> compose_gru_backward(const Tensor& grad_hy, const Tensor& workspace,
                                                                        bool has_bias) {
  const auto parts = workspace.chunk(5, 1);
  const Tensor &reset = parts[0], &update = parts[1], &fresh = parts[2], &hx = parts[3], &hidden_fresh = parts[4];
  const Tensor grad_update = grad_hy * (hx - fresh) * update * (1 - update);
  const Tensor grad_fresh = grad_hy * (1 - update) * (1 - fresh * fresh);
  const Tensor grad_reset = grad_fresh * hidden_fresh * reset * (1 - reset);
  const Tensor grad_input = at::cat({grad_reset, grad_update, grad_fresh}, 1);
  const Tensor grad_hidden = at::cat({grad_reset, grad_update, grad_fresh * reset}, 1);
  return {grad_input, grad_hidden, grad_hy * update, has_bias ? grad_input.sum(0) : Tensor(),
          has_bias ? grad_hidden.sum(0) : Tensor()};
}

template <class Result>
Result composed(const Overload& overload, Result result) {
  overload.op.count(Tier::kDecomposition);
  return result;
}

std::optional<std::tuple<Tensor, Tensor, Tensor>> lstm_cell(const Overload& overload, const Tensor& input_gates,
                                                            const Tensor& hidden_gates, const Tensor& cx,
                                                            const OptionalTensor& input_bias,
                                                            const OptionalTensor& hidden_bias) {
  const Tensor a = input_gates.contiguous(), b = hidden_gates.contiguous(), c = cx.contiguous();
  const Tensor bias_a = contiguous(input_bias), bias_b = contiguous(hidden_bias);
  Tensor hy = output_like(c), cy = output_like(c), workspace = output_like(a);
  if (cx.numel() != 0 && cx.dim() == 2 &&
      hp::ops::lstm_cell(overload, device_holding(cx), view(hy), view(cy), view(workspace), view(a), view(b), view(c),
                         view(bias_a), view(bias_b))) {
    return std::make_tuple(std::move(hy), std::move(cy), std::move(workspace));
  }
  return composed(overload, compose_lstm(input_gates, hidden_gates, cx, input_bias, hidden_bias));
}

std::optional<std::tuple<Tensor, Tensor, Tensor>> lstm_cell_backward(const Overload& overload,
                                                                     const OptionalTensor& grad_hy,
                                                                     const OptionalTensor& grad_cy, const Tensor& cx,
                                                                     const Tensor& cy, const Tensor& workspace,
                                                                     bool has_bias) {
  const Tensor hidden = contiguous(grad_hy), cell = contiguous(grad_cy);
  if (!hidden.defined() && !cell.defined()) return std::tuple<Tensor, Tensor, Tensor>();
  const Tensor old_state = cx.contiguous(), state = cy.contiguous(), gates = workspace.contiguous();
  Tensor grad_gates = output_like(gates), grad_cx = output_like(old_state);
  if (cx.numel() != 0 && cx.dim() == 2 &&
      hp::ops::lstm_cell_backward(overload, device_holding(cx), view(grad_gates), view(grad_cx), view(hidden),
                                  view(cell), view(old_state), view(state), view(gates))) {
    Tensor grad_bias = has_bias ? grad_gates.sum(0) : Tensor();
    return std::make_tuple(std::move(grad_gates), std::move(grad_cx), std::move(grad_bias));
  }
  return composed(overload, compose_lstm_backward(grad_hy, grad_cy, cx, cy, workspace, has_bias));
}

std::optional<std::tuple<Tensor, Tensor>> gru_cell(const Overload& overload, const Tensor& input_gates,
                                                   const Tensor& hidden_gates, const Tensor& hx,
                                                   const OptionalTensor& input_bias,
                                                   const OptionalTensor& hidden_bias) {
  const Tensor a = input_gates.contiguous(), b = hidden_gates.contiguous(), h = hx.contiguous();
  const Tensor bias_a = contiguous(input_bias), bias_b = contiguous(hidden_bias);
  if (hx.numel() != 0 && hx.dim() == 2) {
    Tensor hy = output_like(h), workspace = empty({hx.size(0), 5 * hx.size(1)}, hx.scalar_type(), hx.device().index());
    if (hp::ops::gru_cell(overload, device_holding(hx), view(hy), view(workspace), view(a), view(b), view(h),
                          view(bias_a), view(bias_b))) {
      return std::make_tuple(std::move(hy), std::move(workspace));
    }
  }
  return composed(overload, compose_gru(input_gates, hidden_gates, hx, input_bias, hidden_bias));
}

std::optional<std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>> gru_cell_backward(const Overload& overload,
                                                                                    const Tensor& grad_hy,
                                                                                    const Tensor& workspace,
                                                                                    bool has_bias) {
  const Tensor grad = grad_hy.contiguous(), gates = workspace.contiguous();
  if (grad.numel() != 0 && grad.dim() == 2) {
    const int64_t batch = grad.size(0), width = grad.size(1);
    Tensor grad_input = empty({batch, 3 * width}, grad.scalar_type(), grad.device().index());
    Tensor grad_hidden = output_like(grad_input), grad_hx = output_like(grad);
    if (hp::ops::gru_cell_backward(overload, device_holding(grad), view(grad_input), view(grad_hidden), view(grad_hx),
                                   view(grad), view(gates))) {
      Tensor input_bias = has_bias ? grad_input.sum(0) : Tensor(),
             hidden_bias = has_bias ? grad_hidden.sum(0) : Tensor();
      return std::make_tuple(std::move(grad_input), std::move(grad_hidden), std::move(grad_hx), std::move(input_bias),
                             std::move(hidden_bias));
    }
  }
  return composed(overload, compose_gru_backward(grad_hy, workspace, has_bias));
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/recurrent.inc"
