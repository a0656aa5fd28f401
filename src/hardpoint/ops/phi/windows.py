"""Windows of images as columns, and channels as places."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

COMPOSED = (
    *("unfold", "unfold_grad", "fold", "fold_grad"),
    *("pixel_shuffle", "pixel_shuffle_grad", "pixel_unshuffle", "pixel_unshuffle_grad"),
)
