"""Results of a run in files, to be compared with those of another run: another device, driver or version."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch

from hardpoint.check import closeness, compare


def _file(folder: Path, entry: str) -> Path:
    return folder / f"{quote(entry, safe='')}.pt"


def save(folder: Path, entry: str, results: dict[str, list[Any]]) -> None:
    """Write the results of an entry, by the names of the calls."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(results, _file(folder, entry))


def leaves(result: Any) -> list[Any]:
    """The tensors of a result on the CPU, and its numbers."""
    return [compare.plain(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in compare.leaves(result)]


def _difference(ours: list[Any], theirs: list[Any]) -> str:
    if problem := compare.metadata(ours, theirs, "cpu"):
        return problem
    for a, e in zip(ours, theirs, strict=True):
        if not isinstance(e, torch.Tensor):
            continue
        if not closeness.close(compare.values_of(a), compare.values_of(e)):
            return compare.message(a, e)
    return ""


def differences(ours: Path, theirs: Path, entry: str) -> dict[str, str]:
    """How results of two runs for an entry differ, by the calls that both made; empty within torch's tolerances."""
    files = [_file(folder, entry) for folder in (ours, theirs)]
    if not all(file.exists() for file in files):
        return {}
    mine, other = (torch.load(file) for file in files)
    return {call: _difference(mine[call], other[call]) for call in mine if call in other}
