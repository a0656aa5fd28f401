"""Writes reports as text to stderr or as JSON lines to a file."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from hardpoint.debug._calls.base import Report
from hardpoint.debug._tool.paths import absolute, shown


def print_lines(text: str) -> None:
    """Print to stderr, each line marked as Hardpoint's."""
    print("\n".join(f"[hardpoint] {line}" for line in text.splitlines()), file=sys.stderr, flush=True)


def to_json(value: Any) -> str:
    """A report as strict JSON, which has no NaN and no infinity: they become strings."""

    def strict(value: Any) -> Any:
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, dict):
            return {key: strict(each) for key, each in value.items()}
        return [strict(each) for each in value] if isinstance(value, (list, tuple)) else value

    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(strict(value), allow_nan=False)


class ReportWriter:
    """The reports of one tool. Safe to use from any thread."""

    def __init__(self, tool: str, file: str | Path | None, format_report: Callable[[Report], str]) -> None:
        self._tool = tool
        self._format = format_report
        self._lock = threading.Lock()
        self._file: IO[str] | None = None
        if file is not None:
            self._path = absolute(file)
            try:
                self._file = open(self._path, "a")  # noqa: SIM115  (closed by close)
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
                try:
                    print(to_json(report), file=self._file, flush=True)
                except OSError as error:
                    self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """Close the file after its last complete line. A full disk must not end the program."""
        assert self._file is not None
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError), open(self._path, "rb+") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
        print_lines(f"{self._tool}: {shown(self._path)} ends early: {error.strerror}")

    def close(self) -> None:
        """Close the file; later reports are dropped."""
        with self._lock:
            if self._file is not None:
                with contextlib.suppress(OSError):
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
