"""Operators that move elements."""

from hardpoint.ops.phi import PLAIN, Kernels

KERNELS: Kernels = {
    "cat": {"concat": PLAIN, "stack": PLAIN, "unstack_grad": PLAIN},
    "flip": {"flip": PLAIN, "reverse": PLAIN},
    "roll": {"roll": PLAIN, "roll_grad": PLAIN},
    "tril": {"tril": PLAIN, "tril_grad": PLAIN},
    "triu": {"triu": PLAIN, "triu_grad": PLAIN},
}

#: Copies between slices of tensors, or sums over repeated elements.
COMPOSED = (
    *("concat_grad", "split", "split_with_num", "unstack", "unbind", "stack_grad", "tril_triu", "tril_triu_grad"),
    *("slice", "slice_grad", "strided_slice", "strided_slice_grad", "strided_slice_raw", "strided_slice_raw_grad"),
    *(
        "set_value",
        "set_value_with_tensor",
        "set_value_grad",
        "set_value_with_scalar_grad",
        "transpose",
        "transpose_grad",
        "tile",
        "tile_grad",
    ),
    *("expand", "expand_grad", "expand_as", "expand_as_grad", "broadcast_tensors", "broadcast_tensors_grad"),
    *("meshgrid", "meshgrid_grad", "diag", "diag_grad", "diagonal", "diagonal_grad", "trace"),
    *("repeat_interleave", "repeat_interleave_grad"),
)
