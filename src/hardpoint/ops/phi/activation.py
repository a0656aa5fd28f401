"""Activations and their gradients."""

from hardpoint.ops.phi import Kernels, Phi, same

KERNELS: Kernels = {
    **same("relu", "silu"),
    # From the output, which is positive where the input is.
    "threshold_backward": {"relu_grad": Phi(inputs=(1, 0), attributes=(0,))},
    "sigmoid_backward": {"sigmoid_grad": Phi(inputs=(1, 0))},
    "tanh_backward": {"tanh_grad": Phi(inputs=(1, 0))},
    "hardtanh": {"relu6": Phi(attributes=(0, 6))},
    "hardtanh_backward": {"relu6_grad": Phi(inputs=(1, 0), attributes=(0, 6))},
    "gelu": {"gelu": Phi(variant="$0")},
    "gelu_backward": {"gelu_grad": Phi(inputs=(1, 0), variant="$0")},
}
