"""Replay: runs saved calls again, compares them with the CPU and times them."""

from __future__ import annotations

from pathlib import Path

from hardpoint.debug._saved.base import Replay, SavedCall
from hardpoint.debug._saved.files import find_files

__all__ = ["Replay", "SavedCall", "find_files", "load"]


def load(path: Path) -> SavedCall:
    """Read a saved call of either framework. Raises ``ValueError`` if the file is not one."""
    from hardpoint.debug._saved.paddle import PaddleSavedCall, is_paddle_call

    if is_paddle_call(path):
        return PaddleSavedCall(path)
    from hardpoint.debug._saved.torch import TorchSavedCall

    return TorchSavedCall(path)
