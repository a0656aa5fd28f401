"""Losses and their gradients."""

from hardpoint.ops.phi import PLAIN, Kernels

KERNELS: Kernels = {
    "nll_loss": {"nll_loss": PLAIN},
    "nll_loss_backward": {"nll_loss_grad": PLAIN},
    "binary_cross_entropy": {"bce_loss": PLAIN},
    "binary_cross_entropy_backward": {"bce_loss_grad": PLAIN},
    "huber_loss": {"huber_loss": PLAIN},
}

COMPOSED = (
    "cross_entropy_with_softmax",
    "cross_entropy_with_softmax_grad",
    "huber_loss_grad",
    "kldiv_loss",
    "kldiv_loss_grad",
    "label_smooth",
    "label_smooth_grad",
    "sigmoid_cross_entropy_with_logits",
    "sigmoid_cross_entropy_with_logits_grad",
)
