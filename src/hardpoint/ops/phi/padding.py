"""Constant, reflection and replication padding."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

COMPOSED = ("pad", "pad_grad", "pad3d", "pad3d_grad")
