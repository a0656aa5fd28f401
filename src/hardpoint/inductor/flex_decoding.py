"""FlexAttention of few queries: Inductor splits the keys among compute units, and asks torch.cuda for their number."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch

from hardpoint.inductor.interface import COMPUTE_UNITS

MODULE = "torch._inductor.kernel.flex.flex_decoding"


def register(name: str) -> None:
    """Use the device's own compute units, unless there is a GPU that PyTorch knows."""
    try:
        module: Any = importlib.import_module(MODULE)
    except ModuleNotFoundError:
        return
    original = getattr(module, "get_split_k", None)
    if original is None or torch.cuda.is_available() or torch.xpu.is_available():
        return

    @functools.wraps(original)
    def get_split_k(B: int, H: int, Mk: int) -> int:
        units = getattr(torch, name).get_device_properties(0).compute_units or COMPUTE_UNITS
        return max(int(units // max(B * H, 1) * 2), 1)

    module.get_split_k = get_split_k
