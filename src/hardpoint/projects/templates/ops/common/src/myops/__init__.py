"""The fused operator silu_mul(gate, up) = silu(gate) * up, the middle of a gated feed-forward layer.

``myops.silu_mul`` is for PyTorch, ``myops.paddle.silu_mul`` for PaddlePaddle.
"""

from importlib.util import find_spec

if find_spec("torch"):
    from myops.torch import silu_mul  # noqa: F401
