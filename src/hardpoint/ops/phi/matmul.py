"""Matrix products."""

from hardpoint.ops.phi import PLAIN, Kernels

KERNELS: Kernels = {"matmul": {"matmul": PLAIN, "bmm": PLAIN, "mv": PLAIN}, "addmm": {"addmm": PLAIN}}

COMPOSED = ("matmul_grad", "bmm_grad", "mv_grad", "addmm_grad", "dot", "dot_grad")
