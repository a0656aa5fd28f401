"""Writes reports as text to stderr or as JSON lines to a file."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from hardpoint.debug._calls.base import Report


def print_lines(text: str) -> None:
    """Print to stderr, each line marked as Hardpoint's."""
    print("\n".join(f"[hardpoint] {line}" for line in text.splitlines()), file=sys.stderr, flush=True)


class ReportWriter:
    """The reports of one tool. Safe to use from any thread."""

    def __init__(self, tool: str, file: str | Path | None, format_report: Callable[[Report], str]) -> None:
        self._format = format_report
        self._lock = threading.Lock()
        self._file: IO[str] | None = None
        if file is not None:
            try:
                self._file = open(file, "a")  # noqa: SIM115  (closed by close)
            except OSError as error:
                raise ValueError(f"{tool} cannot write to {file}: {error.strerror}") from None

    @property
    def to_file(self) -> bool:
        """Whether reports go to a file."""
        return self._file is not None

    def write(self, report: Report) -> None:
        """Write one report."""
        with self._lock:
            if self._file is None:
                print_lines(self._format(report))
            elif not self._file.closed:
                print(json.dumps(report), file=self._file, flush=True)

    def close(self) -> None:
        """Close the file; later reports are dropped."""
        with self._lock:
            if self._file is not None:
                self._file.close()


def format_origin(report: Report) -> str:
    """``vendor, train.py:12``: the tier of a call, and its location if known."""
    return f"{report['tier']}, {report['location']}" if report["location"] else str(report["tier"])


def format_argument(value: Any) -> str:
    """An argument or result, as a call describes it, on one line."""
    if isinstance(value, dict):
        text = (
            f"numel:{value['numel']}, sizes:{value['sizes']}, strides:{value['strides']}, "
            f"view:{int(value['view'])}, dtype:{value['dtype']}, device:{value['device']}, "
            f"data_ptr:{value['data_ptr']}"
        )
        return f"{text}, values:{value['values']}" if "values" in value else text
    if isinstance(value, list):
        return "[" + "; ".join(format_argument(item) for item in value) + "]"
    return str(value)
