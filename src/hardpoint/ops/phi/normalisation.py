"""Normalisation, and its gradients."""

from hardpoint.ops.phi import PLAIN, Kernels

KERNELS: Kernels = {
    "batch_norm": {"batch_norm": PLAIN, "batch_norm_infer": PLAIN},
    "batch_norm_backward": {"batch_norm_grad": PLAIN},
    "layer_norm": {"layer_norm": PLAIN},
    "layer_norm_backward": {"layer_norm_grad": PLAIN},
    "group_norm": {"group_norm": PLAIN, "instance_norm": PLAIN},
    "group_norm_backward": {"group_norm_grad": PLAIN, "instance_norm_grad": PLAIN},
}
