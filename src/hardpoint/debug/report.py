"""Report: one HTML page about a run, with advice on what to do next. Computed from a trace."""

from __future__ import annotations

import os
import shlex
import tempfile
from html import escape
from pathlib import Path
from typing import Any

from hardpoint.debug._tool.base import Tool
from hardpoint.debug._tool.options import EnvironmentVariable
from hardpoint.debug._tool.paths import absolute, shown
from hardpoint.debug.trace import Trace, process_file


class Report(Tool[None]):
    """Write a page about the program to ``file`` at :meth:`stop` or the end of a ``with`` block.

    Uses the active trace, or writes one to a temporary file.
    """

    def __init__(self, file: str | Path) -> None:
        super().__init__()
        self.file = absolute(file)
        self.problem = ""
        self._stopped = False
        self._own_trace = Trace.active is None
        try:
            trace = _trace_beside(self.file) if Trace.active is None else Trace.active.file
            self.file.write_text(_unfinished(trace, self.file), encoding="utf-8")
        except OSError as error:
            raise ValueError(f"report: cannot write {file}: {error.strerror}") from None
        self._trace = Trace.active or Trace(trace)

    def stop(self) -> None:
        """Stop tracing and write the page. Stopping twice is harmless."""
        if self._stopped:
            return
        self._stopped = True
        if not self._trace.is_mine():
            return
        self._trace.stop()
        try:
            write(self._trace.file, self.file)
        except (ValueError, OSError) as error:
            self.problem = f"not written: {error}"
        if self._own_trace and not self.problem:
            self._trace.file.unlink(missing_ok=True)

    def summary(self) -> str:
        """The file on one line."""
        if not self._trace.is_mine():
            return ""
        if self.problem and self._own_trace:
            return (
                f"report: {self.problem}. The trace is in {shown(self._trace.file)}: `hardpoint report` writes the page"
            )
        return f"report: {self.problem or f'written to {shown(self.file)}'}"


def _trace_beside(page: Path) -> Path:
    """A new file next to the page. It is all that is left if the program is killed."""
    number, name = tempfile.mkstemp(".trace.json", f"{page.stem}-", page.parent)
    os.close(number)
    return Path(name)


def _unfinished(trace: Path, file: Path) -> str:
    command = escape(shlex.join(["hardpoint", "report", shown(trace), shown(file)]))
    return (
        "<!doctype html><meta charset=utf-8><title>Hardpoint report</title>"
        "<p>The program is still running, or it was killed. This command writes the page from what was traced:"
        f"<pre>{command}</pre>\n"
    )


def write(trace: Path, file: Path) -> None:
    """Write a page about a trace file. Raises ``ValueError`` if it is not a trace."""
    from hardpoint.debug._report import figures, page, trace_data

    page.write(figures.compute(trace_data.load(trace)), file)


report = Report
"""Create and start :class:`Report`; takes the same arguments."""


def _from_environment(file: str, options: dict[str, Any]) -> Report:
    return Report(process_file(file))


#: A file: ``report.html``.
environment = EnvironmentVariable("HARDPOINT_REPORT", {}, _from_environment)
