"""Backend metadata on tensors, preserved by ``torch.save`` and ``torch.load``.

Import this module in programs that save or load tensors with metadata: torch takes one pair of serialization functions
per process, and this import registers Hardpoint's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import hardpoint.torch
from hardpoint.torch import _adapter

if TYPE_CHECKING:
    import torch

hardpoint.torch.mount()
_module = _adapter.load()
_module.enable_metadata()


def set_metadata(tensor: torch.Tensor, flags: dict[str, bool]) -> None:
    """Replace the flags of a device tensor."""
    _module.set_metadata(tensor, flags)


def get_metadata(tensor: torch.Tensor) -> dict[str, bool]:
    """Flags of a tensor; empty by default."""
    flags: dict[str, bool] = _module.get_metadata(tensor)
    return flags
