"""Device memory at any address as a torch tensor, for kernels that are wrong on purpose."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch

from hardpoint import _dlpack

_owned: list[object] = []  # must outlive the tensors


def tensor_at(
    address: int, shape: Sequence[int], strides: Sequence[int], *, code: int, bits: int, device: int = 0
) -> torch.Tensor:
    """A tensor on memory that the caller keeps alive, at any address of the device. ``code``: of DLPack."""
    sizes, steps = (ctypes.c_int64 * len(shape))(*shape), (ctypes.c_int64 * len(shape))(*strides)
    tensor = _dlpack.Tensor(address, _dlpack.DEVICE, device, len(shape), code, bits, 1, sizes, steps)
    managed = _dlpack.ManagedTensor(tensor)
    _owned.append((managed, sizes, steps))
    return torch.utils.dlpack.from_dlpack(_dlpack.new_capsule(ctypes.addressof(managed), _dlpack.UNUSED, None))
