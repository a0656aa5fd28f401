"""Tensors that share memory: slices of one buffer, and outputs that are their inputs."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

COMPOSED = ("coalesce_tensor", "share_data")
