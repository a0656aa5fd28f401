"""Copies torch arguments to another device with their strides, gaps and shared storages."""

from __future__ import annotations

from typing import Any

import torch

#: Copies of a storage start at multiples of this many bytes, which keeps elements of any size aligned.
ALIGNMENT = 16


def dtype_name(tensor: torch.Tensor) -> str:
    """``float32`` for ``torch.float32``."""
    return str(tensor.dtype).removeprefix("torch.")


def tensors(values: Any) -> list[torch.Tensor]:
    """All tensors in nested arguments or results, in order."""
    if isinstance(values, torch.Tensor):
        return [values]
    if isinstance(values, (list, tuple)):
        return [tensor for value in values for tensor in tensors(value)]
    return []


def replace(values: Any, others: dict[int, Any]) -> Any:
    """The same arguments with tensors replaced, keyed by the ``id`` of the original."""
    if isinstance(values, torch.Tensor):
        return others.get(id(values), values)
    if isinstance(values, (list, tuple)):
        return [replace(value, others) for value in values]
    return values


def copied_bytes(values: Any) -> int:
    """Bytes that :func:`copy` would allocate."""
    return sum(end - start for start, end, _ in _storage_spans(tensors(values)).values())


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Byte range of a tensor within its storage."""
    start = tensor.storage_offset() * tensor.itemsize
    if tensor.numel() == 0:
        return start, start
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.itemsize


def _storage_spans(found: list[torch.Tensor]) -> dict[int, tuple[int, int, torch.Tensor]]:
    """For each storage, the byte range in use and one tensor on it."""
    spans: dict[int, tuple[int, int, torch.Tensor]] = {}
    for tensor in found:
        start, end = _span(tensor)
        key = tensor.untyped_storage()._cdata
        if key in spans:
            start, end = min(start, spans[key][0]), max(end, spans[key][1])
        spans[key] = start // ALIGNMENT * ALIGNMENT, end, tensor
    return spans


def copy(values: Any, device: torch.device | str) -> dict[int, torch.Tensor]:
    """Copies of all tensors in ``values`` on ``device``, keyed by the ``id`` of the original.

    Tensors that share a storage share one again, so in-place operators behave the same on the copies.
    """
    found = tensors(values)
    storages = {}
    for key, (start, end, tensor) in _storage_spans(found).items():
        raw = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        raw.set_(tensor.untyped_storage(), start, (end - start,), (1,))
        storages[key] = start, raw.to(device, copy=True)
    copies: dict[int, torch.Tensor] = {}
    for tensor in found:
        start, raw = storages[tensor.untyped_storage()._cdata]
        offset = (tensor.storage_offset() * tensor.itemsize - start) // tensor.itemsize
        made = torch.empty(0, dtype=tensor.dtype, device=device)
        made.set_(raw.untyped_storage(), offset, tensor.shape, tensor.stride())
        if tensor.is_conj():
            made = torch._conj(made)
        if tensor.is_neg():
            made = torch._neg_view(made)
        copies[id(tensor)] = made
    return copies
