"""silu_mul(gate, up) = silu(gate) * up, the middle of a gated feed-forward layer, as an operator of its own.

Importing this package gives torch the operators of the namespace ``myops``; the same for Paddle is in
``myops.paddle``.
"""

import torch

from myops import ops  # noqa: F401  (gives torch the operators)


def silu_mul(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up, for two tensors of one dtype; shapes are broadcast."""
    return torch.ops.myops.silu_mul(*torch.broadcast_tensors(gate, up))
