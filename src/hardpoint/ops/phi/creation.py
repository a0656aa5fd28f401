"""Fills, copies and conversions."""

from hardpoint.ops.phi import PLAIN, Kernels

KERNELS: Kernels = {
    # The last two fill nothing, but give the device's memory.
    "fill": dict.fromkeys(("full", "full_like", "fill", "empty", "empty_like"), PLAIN),
    "copy": dict.fromkeys(("contiguous", "strided_copy", "cast"), PLAIN),
}
