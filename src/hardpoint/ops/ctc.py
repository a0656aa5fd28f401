"""Connectionist temporal classification."""

from hardpoint.ops import Op, Overload

OPS = (
    Op(
        "ctc_loss",
        "custom",
        ("log_probs", "targets", "lengths"),
        "out, log_alpha = the loss of each batch element, and what its gradient needs; lengths: steps, labels and the "
        "place of the first label of each",
        {"_ctc_loss": Overload()},
        attributes=("stride", "blank"),
    ),
    Op(
        "ctc_loss_backward",
        "custom",
        ("grad", "log_probs", "targets", "lengths", "losses", "log_alpha"),
        "out = the gradient of log_probs",
        {"_ctc_loss_backward": Overload()},
        attributes=("stride", "blank", "zero_infinity"),
    ),
)
