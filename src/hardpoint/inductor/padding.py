"""Padding of matrix products to sizes that GPUs multiply faster, which Inductor does only for known device names."""

from __future__ import annotations

import functools
from typing import Any

import torch

from hardpoint.triton import generators


def register(name: str) -> None:
    """Consider padding if the device is a GPU with matrix units. Inductor measures whether it is faster."""
    if generators.kind(name) == "portable":
        return
    from torch._inductor.fx_passes import pad_mm

    known = pad_mm.check_device

    @functools.wraps(known)
    def check_device(a: torch.Tensor, b: torch.Tensor) -> bool:
        return a.device.type == b.device.type == name or bool(known(a, b))

    pad_mm.check_device = check_device
    for function, without_cuda in (("is_mm_compute_bound", True), ("should_pad_mm_bf16", False)):
        _answer(pad_mm, function, without_cuda)


def _answer(module: Any, function: str, without_cuda: bool) -> None:
    """Some heuristics ask torch.cuda for the GPU's properties. Without it, only the measurement decides."""
    original = getattr(module, function, None)
    if original is None or torch.cuda.is_available():
        return
    setattr(module, function, lambda *arguments: without_cuda)
