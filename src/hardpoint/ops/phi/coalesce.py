"""Tensors put into one, whose parts they become."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

COMPOSED = ("coalesce_tensor",)
