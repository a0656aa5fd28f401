"""Matrix products."""

from hardpoint.ops.phi import PLAIN, Kernels

KERNELS: Kernels = {"matmul": {"matmul": PLAIN}}

COMPOSED = ("matmul_grad",)
