"""Cumulative operators."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

#: With direction and exclusive mode as attributes.
COMPOSED = ("cumsum", "cumsum_grad", "cumprod")
