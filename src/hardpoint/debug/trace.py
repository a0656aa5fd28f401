"""Trace: a timeline of operators, kernels, copies, waits and memory in a file that Perfetto and Chrome open.

The core writes the file while the program runs (csrc/core/tracing/trace_file.cpp).
"""

from __future__ import annotations

import datetime
import os
import sys
from pathlib import Path
from typing import Any

from hardpoint._runtime import PluginError, core, mounted
from hardpoint.debug import compare
from hardpoint.debug._calls.location import library_folders
from hardpoint.debug._tool.base import Tool
from hardpoint.debug._tool.options import EnvironmentVariable
from hardpoint.debug._tool.paths import START, absolute, shown
from hardpoint.debug._tool.reports import to_json

#: The process whose trace or report gets the name that the user gave; child processes extend the name.
OWNER = "HARDPOINT_TRACE_OWNER"
#: The rank and the process whose file has this rank in its name: the rank's own child processes inherit ``RANK``.
RANK_OWNER = "HARDPOINT_TRACE_RANK_OWNER"


def capture_lines() -> None:
    """Make the core capture Python stacks, and set the folders of library files."""
    core.set_library_folders(library_folders(), START.rstrip(os.sep) + os.sep)


class Trace(Tool[None]):
    """Write a trace to ``file`` until :meth:`stop` or the end of a ``with`` block. One at a time per process."""

    #: The active trace.
    active: Trace | None = None

    def __init__(self, file: str | Path) -> None:
        super().__init__()
        self.file = absolute(file)
        self.problem = ""
        self._running = False
        capture_lines()
        try:
            core.start_trace_file(str(file), to_json(_about()), Path(sys.argv[0]).name or "python")
        except PluginError as error:
            raise ValueError(f"trace: {error}") from None
        self._running = True
        self._process = os.getpid()
        Trace.active = self

    def stop(self) -> None:
        """Wait for the traced work and close the file. Stopping twice is harmless."""
        if self._running:
            self._running = False
            Trace.active = None
            if self.is_mine():
                self.problem = core.stop_trace_file(to_json(_totals()))

    def is_mine(self) -> bool:
        """Whether this process writes the trace. A forked child does not."""
        return self._process == os.getpid()

    def summary(self) -> str:
        """The file on one line, or why it is incomplete."""
        return f"trace: {self.problem or f'written to {shown(self.file)}'}" if self.is_mine() else ""


def _about() -> dict[str, Any]:
    from importlib.metadata import version

    return {
        "hardpoint": version("hardpoint"),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "process": os.getpid(),
    }


def _totals() -> dict[str, Any]:
    compared = compare.latest()
    return {
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]] if sys.argv else [],
        "devices": mounted(),
        "frameworks": {name: str(sys.modules[name].__version__) for name in ("torch", "paddle") if name in sys.modules},
        "counters": core.counters(),
        "cpu_costs": core.cpu_costs(),
        "compare": None if compared is None else {**compared.counts, "findings": compared.findings},
    }


trace = Trace
"""Create and start :class:`Trace`; takes the same arguments."""


def process_file(file: str) -> Path:
    """The file of this process. Child processes of the traced one add their rank or process id to the name."""
    path = Path(file)
    process = str(os.getpid())
    if os.environ.setdefault(OWNER, process) == process:
        return path
    rank = os.environ.get("RANK") or os.environ.get("PADDLE_TRAINER_ID")
    is_rank = rank and os.environ.setdefault(RANK_OWNER, process) == process
    return path.with_stem(f"{path.stem}-{f'rank{rank}' if is_rank else process}")


def _from_environment(file: str, options: dict[str, Any]) -> Trace:
    return Trace(process_file(file))


#: A file: ``trace.json``.
environment = EnvironmentVariable("HARDPOINT_TRACE", {}, _from_environment)
