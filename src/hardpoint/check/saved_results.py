"""Save results to files, to compare them with another run: another device, driver or version."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch

from hardpoint.check import compare, numerics


def _file(folder: Path, entry: str) -> Path:
    return folder / f"{quote(entry, safe='')}.pt"


def save(folder: Path, entry: str, results: dict[str, list[Any]]) -> None:
    """Write the results of an entry by call name."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(results, _file(folder, entry))


def leaves(result: Any) -> list[Any]:
    """Flatten a result, with its tensors on the CPU."""
    return [compare.plain(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in compare.leaves(result)]


def _difference(ours: list[Any], theirs: list[Any]) -> str:
    if problem := compare.metadata(ours, theirs, "cpu"):
        return problem
    for a, e in zip(ours, theirs, strict=True):
        if isinstance(e, torch.Tensor) and not numerics.close(compare.values_of(a), compare.values_of(e)):
            return compare.message(a, e)
    return ""


def differences(ours: Path, theirs: Path, entry: str) -> dict[str, str]:
    """Differences between two runs of an entry by common call; empty within torch's tolerances."""
    files = [_file(folder, entry) for folder in (ours, theirs)]
    if not all(file.exists() for file in files):
        return {}
    mine, other = (torch.load(file) for file in files)
    return {call: _difference(mine[call], other[call]) for call in mine if call in other}
