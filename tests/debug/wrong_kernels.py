"""Kernels with one defect each, for compare and replay to find."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import torch

import hardpoint
from hardpoint.kernels import Kernel


class DLTensor(ctypes.Structure):
    """``DLManagedTensor`` of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)

#: kDLExtDev, and the DLPack codes of the dtypes in these tests, all of 32 bits.
EXTENSION_DEVICE = 12
CODES = {"int32": 0, "float32": 2}
_kept: list[Any] = []  # must outlive torch's tensors


def view(tensor: Any) -> torch.Tensor:
    """A torch tensor on the memory of a kernel's argument; valid during the call."""
    shape = (ctypes.c_int64 * len(tensor.shape))(*tensor.shape)
    strides = (ctypes.c_int64 * len(tensor.shape))(*tensor.strides)
    made = DLTensor(tensor.data_ptr(), EXTENSION_DEVICE, 0, len(shape), CODES[str(tensor.dtype)], 32, 1, shape, strides)
    _kept.append((made, shape, strides))
    seen = torch.utils.dlpack.from_dlpack(new_capsule(ctypes.addressof(made), b"dltensor", None))
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
