"""Coalescing of tensors into one buffer."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

COMPOSED = ("coalesce_tensor",)
