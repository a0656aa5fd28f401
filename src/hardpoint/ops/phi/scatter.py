"""Writes by index."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

#: The output starts as a copy of the input or as zeros.
COMPOSED = (
    *("gather_grad", "index_select_grad", "take_along_axis_grad", "index_sample_grad", "gather_nd_grad"),
    *("put_along_axis", "put_along_axis_grad", "scatter", "scatter_grad", "scatter_nd_add", "scatter_nd_add_grad"),
    *("index_add", "index_add_grad", "index_put", "index_put_grad"),
)
