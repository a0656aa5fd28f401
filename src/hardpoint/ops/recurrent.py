"""Cells of recurrent layers: all of a step except the matrix products."""

from hardpoint.ops import Overload, custom_op

CELL = Overload(device_only=True)

OPS = (
    custom_op(
        "lstm_cell(input_gates, hidden_gates, cx, input_bias, hidden_bias)",
        "hidden state, cell state and activated gates of an LSTM step",
        "_thnn_fused_lstm_cell",
        CELL,
    ),
    custom_op(
        "lstm_cell_backward(grad_hy, grad_cy, cx, cy, workspace)",
        "gradients of the gates and of the old cell state",
        "_thnn_fused_lstm_cell_backward_impl",
        CELL,
    ),
    custom_op(
        "gru_cell(input_gates, hidden_gates, hx, input_bias, hidden_bias)",
        "hidden state of a GRU step, and a workspace for the gradient",
        "_thnn_fused_gru_cell",
        CELL,
    ),
    custom_op(
        "gru_cell_backward(grad_hy, workspace)",
        "gradients of both sets of gates and of the old hidden state",
        "_thnn_fused_gru_cell_backward",
        CELL,
    ),
)
