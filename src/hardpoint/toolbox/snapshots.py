"""Arguments of a call copied to another device: with their strides, their shared memory, and what lies between them."""

from __future__ import annotations

from typing import Any

import torch

#: Where pieces of a storage start, so that elements of any size stay aligned.
ALIGNMENT = 16


def tensors(values: Any) -> list[torch.Tensor]:
    """All tensors among arguments or results, in order."""
    if isinstance(values, torch.Tensor):
        return [values]
    if isinstance(values, (list, tuple)):
        return [tensor for value in values for tensor in tensors(value)]
    return []


def replace(values: Any, others: dict[int, Any]) -> Any:
    """The same arguments with other tensors, by the ``id`` of the old ones."""
    if isinstance(values, torch.Tensor):
        return others.get(id(values), values)
    if isinstance(values, (list, tuple)):
        return [replace(value, others) for value in values]
    return values


def bytes_of(values: Any) -> int:
    """Bytes that a copy would take."""
    return sum(end - start for start, end, _ in _pieces(tensors(values)).values())


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The first byte and the one after the last, within the storage."""
    start = tensor.storage_offset() * tensor.itemsize
    if tensor.numel() == 0:
        return start, start
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.itemsize


def _pieces(found: list[torch.Tensor]) -> dict[int, tuple[int, int, torch.Tensor]]:
    """For each storage the bytes that tensors use of it, and one of them."""
    pieces: dict[int, tuple[int, int, torch.Tensor]] = {}
    for tensor in found:
        start, end = _span(tensor)
        key = tensor.untyped_storage()._cdata
        if key in pieces:
            start, end = min(start, pieces[key][0]), max(end, pieces[key][1])
        pieces[key] = start // ALIGNMENT * ALIGNMENT, end, tensor
    return pieces


def copy(values: Any, device: torch.device | str) -> dict[int, torch.Tensor]:
    """Copies of all tensors among ``values`` on ``device``, by the ``id`` of the originals.

    Tensors that share memory share it there, too, so that a call on the copies means the same.
    """
    found = tensors(values)
    memory = {}
    for key, (start, end, tensor) in _pieces(found).items():
        raw = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        raw.set_(tensor.untyped_storage(), start, (end - start,), (1,))
        memory[key] = start, raw.to(device, copy=True)
    copies: dict[int, torch.Tensor] = {}
    for tensor in found:
        start, raw = memory[tensor.untyped_storage()._cdata]
        offset = (tensor.storage_offset() * tensor.itemsize - start) // tensor.itemsize
        made = torch.empty(0, dtype=tensor.dtype, device=device)
        made.set_(raw.untyped_storage(), offset, tensor.shape, tensor.stride())
        if tensor.is_conj():
            made = torch._conj(made)
        if tensor.is_neg():
            made = torch._neg_view(made)
        copies[id(tensor)] = made
    return copies
