"""Convolutions, ordinary and transposed, and their gradients."""

from hardpoint.ops.phi import PLAIN, Kernels

NAMES = (
    "conv2d",
    "depthwise_conv2d",
    "conv3d",
    "conv2d_transpose",
    "depthwise_conv2d_transpose",
    "conv3d_transpose",
)

KERNELS: Kernels = {
    "convolution": dict.fromkeys(NAMES, PLAIN),
    "convolution_backward": {f"{name}_grad": PLAIN for name in NAMES},
}
