"""Softmax and log-softmax."""

from hardpoint.ops.phi import PLAIN, Kernels

KERNELS: Kernels = {
    "softmax": {"softmax": PLAIN},
    "log_softmax": {"log_softmax": PLAIN},
    "softmax_backward": {"softmax_grad": PLAIN},
    "log_softmax_backward": {"log_softmax_grad": PLAIN},
}
