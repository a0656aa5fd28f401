"""Write the results of decompositions to ``out=`` arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def write_results(targets: Sequence[Any], results: Sequence[Any], resize: bool = True) -> None:
    """Copy results to outputs. Only empty outputs are resized.

    torch's operators differ in which other dtypes and sizes they accept, and whether they warn. A RuntimeError sends
    such calls to the CPU tier, where torch's CPU kernel decides.
    """
    for target, result in zip(targets, results, strict=True):
        resizable = resize and target.numel() == 0
        if target.dtype != result.dtype or (target.shape != result.shape and not resizable):
            raise RuntimeError("the output needs a conversion or another size")
    for target, result in zip(targets, results, strict=True):
        target.resize_(result.shape)
        target.copy_(result)
