"""Send tensors to other processes with ``torch.multiprocessing``.

With the interprocess extension, both sides share device memory, as with CUDA tensors: the sender must keep the tensor
alive while it is in use. Otherwise the receiver gets a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any


def _rebuild_shared(
    index: int,
    handle: bytes,
    offset: int,
    nbytes: int,
    dtype: Any,
    storage_offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool,
    parameter: bool,
) -> Any:
    import torch

    import hardpoint.torch
    from hardpoint.torch import _adapter

    name = hardpoint.torch.mount()
    storage = _adapter.load().open_storage(index, handle, offset, nbytes).untyped_storage()
    tensor = torch.empty(0, dtype=dtype, device=f"{name}:{index}").set_(storage, storage_offset, size, stride)
    return torch.nn.Parameter(tensor, requires_grad) if parameter else tensor.requires_grad_(requires_grad)


def _rebuild_copy(tensor: Any, device: str, requires_grad: bool, parameter: bool) -> Any:
    import torch

    import hardpoint.torch

    hardpoint.torch.mount()
    moved = tensor.to(device)
    return torch.nn.Parameter(moved, requires_grad) if parameter else moved.requires_grad_(requires_grad)


def register(name: str, adapter: Any) -> None:
    """Register the device with multiprocessing's pickler; other tensors use torch's reduction."""
    import torch
    from torch.multiprocessing import reductions

    shares = "interprocess" in adapter.extensions()

    def reduce(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def reduce_tensor(tensor: Any) -> Any:
            if tensor.device.type != name:
                return original(tensor)
            if tensor.requires_grad and not tensor.is_leaf:
                raise RuntimeError(
                    "cannot send a non-leaf tensor that requires grad to another process: detach() it first"
                )
            plain, parameter = tensor.detach(), isinstance(tensor, torch.nn.Parameter)
            if not shares or tensor.numel() == 0:
                return _rebuild_copy, (plain.cpu(), str(tensor.device), tensor.requires_grad, parameter)
            handle, offset, nbytes = adapter.export_storage(plain)
            geometry = (tensor.dtype, tensor.storage_offset(), tuple(tensor.size()), tensor.stride())
            return _rebuild_shared, (
                *(tensor.device.index, handle, offset, nbytes),
                *geometry,
                *(tensor.requires_grad, parameter),
            )

        return reduce_tensor

    ForkingPickler.register(torch.Tensor, reduce(reductions.reduce_tensor))
    ForkingPickler.register(torch.nn.Parameter, reduce(reductions.reduce_tensor))
