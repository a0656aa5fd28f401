"""Dropout. It scales either in training or in inference."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

COMPOSED = ("dropout", "dropout_grad")
