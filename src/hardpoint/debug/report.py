"""Report: one HTML page about a run, with advice on what to do next. Computed from a trace."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hardpoint.debug._tool.base import Tool
from hardpoint.debug._tool.options import EnvironmentVariable
from hardpoint.debug.trace import Trace, process_file


class Report(Tool[None]):
    """Write a page about the program to ``file`` at :meth:`stop` or the end of a ``with`` block.

    Uses the active trace, or writes one to a temporary file.
    """

    def __init__(self, file: str | Path) -> None:
        super().__init__()
        self.file = Path(file)
        self.problem = ""
        try:
            self.file.open("a").close()
        except OSError as error:
            raise ValueError(f"report: cannot write {file}: {error.strerror}") from None
        self._stopped = False
        self._folder = ""
        self._trace = Trace.active
        if self._trace is None:
            self._folder = tempfile.mkdtemp(prefix="hardpoint-")
            self._trace = Trace(Path(self._folder) / "trace.json")

    def stop(self) -> None:
        """Stop tracing and write the page. Stopping twice is harmless."""
        if self._stopped or self._trace is None:
            return
        self._stopped = True
        if not self._trace.is_mine():
            return
        self._trace.stop()
        try:
            write(self._trace.file, self.file)
        except (ValueError, OSError) as error:
            self.problem = f"not written: {error}"
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def summary(self) -> str:
        """The file on one line."""
        if self._trace is None or not self._trace.is_mine():
            return ""
        return f"report: {self.problem or f'written to {self.file}'}"


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
