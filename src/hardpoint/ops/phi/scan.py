"""Running totals."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

#: With Paddle's choice of direction and of what counts.
COMPOSED = ("cumsum", "cumsum_grad", "cumprod")
