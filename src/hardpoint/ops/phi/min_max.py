"""Argmax, argmin and accuracy."""

from hardpoint.ops.phi import Kernels, same

KERNELS: Kernels = same("argmax", "argmin")

COMPOSED = ("accuracy",)
