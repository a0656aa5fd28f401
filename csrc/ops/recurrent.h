// Fused LSTM and GRU cells and their backward. Tensors are contiguous, of one dtype; optional ones may be undefined.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

bool lstm_cell(const OpBinding& binding, Device& device, const View& hy, const View& cy, const View& workspace,
               const View& input_gates, const View& hidden_gates, const View& cx, const View& input_bias,
               const View& hidden_bias);
bool lstm_cell_backward(const OpBinding& binding, Device& device, const View& grad_gates, const View& grad_cx,
                        const View& grad_hy, const View& grad_cy, const View& cx, const View& cy,
                        const View& workspace);
bool gru_cell(const OpBinding& binding, Device& device, const View& hy, const View& workspace, const View& input_gates,
              const View& hidden_gates, const View& hx, const View& input_bias, const View& hidden_bias);
bool gru_cell_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad_hidden,
                       const View& grad_hx, const View& grad_hy, const View& workspace);

}  // namespace hp::ops
