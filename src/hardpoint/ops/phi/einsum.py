"""Einsum."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

COMPOSED = ("einsum", "einsum_grad")
