"""Dropout. It may scale when it is trained or when it is used."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

COMPOSED = ("dropout", "dropout_grad")
