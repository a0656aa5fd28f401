"""Reads by index."""

from hardpoint.ops.phi import PLAIN, Kernels

KERNELS: Kernels = {
    "index_select": {"index_select": PLAIN},
    "gather": {"take_along_axis": PLAIN, "index_sample": PLAIN},
    "index": {"gather": PLAIN, "gather_nd": PLAIN},
}
