"""Connectionist temporal classification."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

COMPOSED = ("warpctc", "warpctc_grad")
