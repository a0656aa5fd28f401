"""Fills, copies and conversions."""

from hardpoint.ops.phi import PLAIN, Kernels

KERNELS: Kernels = {
    # The last two only allocate.
    "fill": dict.fromkeys(("full", "full_like", "full_batch_size_like", "fill", "empty", "empty_like"), PLAIN),
    "copy": dict.fromkeys(("contiguous", "strided_copy", "cast", "assign", "assign_raw", "full_with_tensor"), PLAIN),
    "arange": {"arange": PLAIN, "arange_tensor": PLAIN},
    "linspace": {"linspace": PLAIN},
    "eye": {"eye": PLAIN},
}

COMPOSED = ("assign_value", "fill_grad", "sequence_mask_scalar")
