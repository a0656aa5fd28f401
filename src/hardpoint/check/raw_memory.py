"""Device memory at an address as a torch tensor, for kernels that are wrong on purpose."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

#: kDLExtDev of dlpack.h.
EXTENSION_DEVICE = 12
#: DLDataTypeCode of dlpack.h.
INT, UINT, FLOAT = 0, 1, 2


class _ManagedTensor(ctypes.Structure):
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


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_owned: list[Any] = []  # must outlive the tensors


def tensor_at(
    address: int, shape: Sequence[int], strides: Sequence[int], *, code: int, bits: int, device: int = 0
) -> torch.Tensor:
    """A tensor on memory that the caller keeps alive. It may be any address of the device."""
    sizes, steps = (ctypes.c_int64 * len(shape))(*shape), (ctypes.c_int64 * len(shape))(*strides)
    made = _ManagedTensor(address, EXTENSION_DEVICE, device, len(shape), code, bits, 1, sizes, steps)
    _owned.append((made, sizes, steps))
    return torch.utils.dlpack.from_dlpack(_new_capsule(ctypes.addressof(made), b"dltensor", None))
