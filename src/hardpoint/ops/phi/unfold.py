"""im2col and pixel shuffle."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

COMPOSED = (
    *("unfold", "unfold_grad", "fold", "fold_grad"),
    *("pixel_shuffle", "pixel_shuffle_grad", "pixel_unshuffle", "pixel_unshuffle_grad"),
)
