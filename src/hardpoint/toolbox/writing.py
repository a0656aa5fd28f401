"""Where tools write: reports as text to the terminal or as JSON lines to a file, and calls into a folder."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

Report = dict[str, Any]


class Reports:
    """Reports of one tool, from any thread."""

    def __init__(self, tool: str, file: str | Path | None, text: Callable[[Report], str]) -> None:
        self._text = text
        self._lock = threading.Lock()
        self._file: IO[str] | None = None
        if file is not None:
            try:
                self._file = open(file, "a")  # noqa: SIM115  (closed by close)
            except OSError as error:
                raise ValueError(f"{tool} cannot write to {file}: {error.strerror}") from None

    @property
    def to_file(self) -> bool:
        """Whether they go to a file."""
        return self._file is not None

    def write(self, report: Report) -> None:
        """Write one report."""
        with self._lock:
            if self._file is None:
                lines = self._text(report).splitlines()
                print("\n".join(f"[hardpoint] {line}" for line in lines), file=sys.stderr, flush=True)
            elif not self._file.closed:
                print(json.dumps(report), file=self._file, flush=True)

    def close(self) -> None:
        """No more reports go to the file."""
        with self._lock:
            if self._file is not None:
                self._file.close()


def folder(tool: str, path: str | Path) -> Path:
    """A folder for saved calls, made where there is none."""
    made = Path(path)
    try:
        made.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{tool} cannot write to {made}: {error.strerror}") from None
    return made


def call_file(place: Path, operator: str, number: int) -> Path:
    """The file of an operator's saved call."""
    return place / f"{operator.replace('::', '.')}-{number}.call"
