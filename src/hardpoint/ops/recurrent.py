"""The cells of recurrent nets: everything of a step but the matrix products."""

from hardpoint.ops import Op, Overload


def cell(name: str, inputs: tuple[str, ...], doc: str, aten: str) -> Op:
    """A cell, in one kernel."""
    return Op(name, "custom", inputs, doc, {aten: Overload(takes_all=True)})


OPS = (
    cell(
        "lstm_cell",
        ("input_gates", "hidden_gates", "cx", "input_bias", "hidden_bias"),
        "hidden state, cell state and activated gates of an LSTM step",
        "_thnn_fused_lstm_cell",
    ),
    cell(
        "lstm_cell_backward",
        ("grad_hy", "grad_cy", "cx", "cy", "workspace"),
        "gradients of the gates and of the old cell state",
        "_thnn_fused_lstm_cell_backward_impl",
    ),
    cell(
        "gru_cell",
        ("input_gates", "hidden_gates", "hx", "input_bias", "hidden_bias"),
        "hidden state of a GRU step, and what its gradient needs",
        "_thnn_fused_gru_cell",
    ),
    cell(
        "gru_cell_backward",
        ("grad_hy", "workspace"),
        "gradients of both sets of gates and of the old hidden state",
        "_thnn_fused_gru_cell_backward",
    ),
)
