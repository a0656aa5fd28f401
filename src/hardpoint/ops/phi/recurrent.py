"""Recurrent layers: one Paddle kernel runs all steps of all layers."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

COMPOSED = ("rnn", "rnn_grad")
