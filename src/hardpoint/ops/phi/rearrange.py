"""Windows, diagonals and channels."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

COMPOSED = (
    *("crop", "crop_grad", "fill_diagonal", "fill_diagonal_grad", "channel_shuffle", "channel_shuffle_grad"),
    "equal_all",
)
