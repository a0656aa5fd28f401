"""Folders and names of saved calls."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path


def create_folder(tool: str, path: str | Path) -> Path:
    """Create a folder for saved calls. Raises ``ValueError`` if that fails."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{tool} cannot write to {folder}: {error.strerror}") from None
    return folder


def call_file(folder: Path, operator: str, number: int) -> Path:
    """The file for an operator's saved call: ``aten.mm-1.call``."""
    return folder / f"{operator.replace('::', '.')}-{number}.call"


def find_files(paths: Iterable[Path]) -> list[Path]:
    """The given files, and all saved calls in given folders. Raises ``ValueError`` for a folder without any."""
    found: list[Path] = []
    for path in paths:
        inside = sorted([*path.glob("*.call"), *path.glob("*.case")]) if path.is_dir() else [path]
        if not inside:
            raise ValueError(f"{path} contains no saved call")
        found += inside
    return found


def first_line(message: str) -> str:
    """The first line of an error, without the source location, so that two runs can be compared."""
    return re.sub(r"( \(at [^()]*\))+$", "", message.splitlines()[0]) if message else ""
