"""The operator in PyTorch. Importing this module registers ``torch.ops.myops``."""

import torch

from myops import kernels, ops  # noqa: F401

if kernels.on_device.available():
    from myops import graph  # noqa: F401


def silu_mul(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up for two tensors of the same dtype, with broadcasting."""
    return torch.ops.myops.silu_mul(*torch.broadcast_tensors(gate, up))
