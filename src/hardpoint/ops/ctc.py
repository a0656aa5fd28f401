"""Connectionist temporal classification."""

from hardpoint.ops import custom_op

OPS = (
    custom_op(
        "ctc_loss(log_probs, targets, lengths; stride, blank)",
        "out, log_alpha = loss of each batch element, and a workspace for the gradient; lengths: steps, labels, and "
        "offset of the first label",
        "_ctc_loss",
    ),
    custom_op(
        "ctc_loss_backward(grad, log_probs, targets, lengths, losses, log_alpha; stride, blank, zero_infinity)",
        "out = the gradient of log_probs",
        "_ctc_loss_backward",
    ),
)
