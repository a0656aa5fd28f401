"""Recurrent nets: all steps of all layers are one kernel of Paddle's."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

COMPOSED = ("rnn", "rnn_grad")
