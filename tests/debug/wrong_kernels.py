"""Kernels with one defect each, for compare and replay to find."""

from __future__ import annotations

import math
from typing import Any

import torch

import hardpoint
from hardpoint._dlpack import CODES as DLPACK_CODES
from hardpoint.check.raw_memory import tensor_at
from hardpoint.kernels import Kernel

#: DLPack codes of the dtypes in these tests, all of 32 bits.
CODES = {"int32": DLPACK_CODES["int"], "float32": DLPACK_CODES["float"]}


def view(tensor: Any) -> torch.Tensor:
    """A torch tensor on the memory of a kernel's argument; valid during the call."""
    code = CODES[str(tensor.dtype)]
    seen = tensor_at(tensor.data_ptr(), tensor.shape, tensor.strides, code=code, bits=32)
    assert seen.numel() == math.prod(tensor.shape)
    return seen


def strides_ignored() -> Kernel[..., None]:
    """``mul`` reads its first input as if it were contiguous."""

    @hardpoint.kernel("mul", strided=True)
    def mul(out: Any, x: Any, y: Any) -> None:
        a, b = view(x), view(y)
        flat = torch.as_strided(a, a.shape, torch.empty(a.shape).stride())
        view(out).copy_(flat.cpu() * b.cpu())

    return mul


def input_written() -> Kernel[..., None]:
    """``mul`` also doubles the first element of its second input."""

    @hardpoint.kernel("mul", strided=True)
    def mul(out: Any, x: Any, y: Any) -> None:
        a, b = view(x), view(y)
        view(out).copy_(a.cpu() * b.cpu())
        b.view(-1)[:1].copy_(b.view(-1)[:1].cpu() * 2)

    return mul


def backward_wrong() -> Kernel[..., None]:
    """The gradient of ``relu`` has the wrong sign."""

    @hardpoint.kernel("threshold_backward")
    def threshold_backward(out: Any, grad: Any, self: Any, threshold: float) -> None:
        view(out).copy_(torch.where(view(self).cpu() > threshold, -view(grad).cpu(), 0.0))

    return threshold_backward


def strides_wrong() -> Kernel[..., None]:
    """``mul`` adds one if its first input is not contiguous, for example broadcast."""

    @hardpoint.kernel("mul", strided=True)
    def mul(out: Any, x: Any, y: Any) -> None:
        a, b = view(x), view(y)
        view(out).copy_(a.cpu() * b.cpu() + (0 if a.is_contiguous() else 1))

    return mul
