"""Folders and names of saved calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from hardpoint.debug._tool.paths import absolute, shown
from hardpoint.debug._tool.reports import print_lines


def create_folder(tool: str, path: str | Path) -> Path:
    """Create a folder for saved calls. Raises ``ValueError`` if that fails."""
    folder = absolute(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{tool} cannot write to {shown(folder)}: {error.strerror}") from None
    return folder


def call_file(folder: Path, operator: str, number: int) -> Path:
    """The file for an operator's saved call: ``aten.mm-1.call``."""
    return folder / f"{operator.replace('::', '.')}-{number}.call"


def write_call(tool: str, path: Path, save: Callable[[Path], object]) -> bool:
    """Write a call, whole or not at all; returns whether that worked. A full disk is reported, not raised."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        save(temporary)
        temporary.replace(path)
    except (OSError, RuntimeError) as error:  # RuntimeError: of the device, while the inputs are copied
        temporary.unlink(missing_ok=True)
        problem = getattr(error, "strerror", None) or (str(error).splitlines() or ["unknown error"])[0]
        print_lines(f"{tool}: {shown(path)} was not saved: {problem}")
        return False
    return True


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
