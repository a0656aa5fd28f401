"""The place of the largest or smallest element, and how often it is the right one."""

from hardpoint.ops.phi import Kernels, same

KERNELS: Kernels = same("argmax", "argmin")

COMPOSED = ("accuracy",)
