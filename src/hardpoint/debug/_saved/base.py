"""A saved call, independent of the framework, and its replay."""

from __future__ import annotations

import base64
import statistics
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from hardpoint.debug._calls.base import Report
from hardpoint.debug._saved.files import first_line
from hardpoint.debug.compare import Compare

#: Version of the file format.
VERSION = 2
#: Larger inputs are not embedded in a script.
MAX_EMBEDDED = 64 << 10
#: Timed runs.
REPEATS = 20


class Replay(NamedTuple):
    """The result of running a saved call again."""

    reports: list[Report]
    device_us: float  # median time; NaN if the call failed
    cpu_us: float


class _ReportList(Compare):
    """Compares every call and keeps the reports in a list."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        super().__init__("all")

    def report(self, report: Report) -> None:
        self.reports.append(report)


class SavedCall(ABC):
    """A call read from a file."""

    #: Full name of the operator.
    name: str

    def __init__(self, path: Path, content: Report) -> None:
        self.path = path
        self.content = content

    @abstractmethod
    def default_device(self) -> str:
        """Mount the chosen device, if necessary, and return its name."""

    @abstractmethod
    def check_device(self, device: str) -> None:
        """Raise ``ValueError`` unless calls can run on this device."""

    @abstractmethod
    def prepare(self, device: str) -> Callable[[], object]:
        """A function that runs the call on a device and waits for it. Each function has its own copy of the inputs."""

    @abstractmethod
    def on_cpu(self, device: str) -> AbstractContextManager[Callable[[], object]]:
        """A function that runs the call on the CPU, valid inside the context."""

    @abstractmethod
    def script(self, device: str) -> str:
        """A program for a bug report: runs the call on the device and the CPU, and fails if they differ.

        Small inputs are embedded; larger ones are read from the file.
        """

    def error_message(self, error: Exception) -> str:
        """The message of an error that the call raised."""
        return str(error)

    def replay(self, device: str) -> Replay:
        """Run the call again: compare it with the CPU and time it."""
        run = self.prepare(device)
        try:
            with _ReportList() as compared:
                run()
        except Exception as error:
            return Replay([self._failure(device, error)], float("nan"), float("nan"))
        device_us = _median_us(self.prepare(device))
        try:
            with self.on_cpu(device) as run:
                cpu_us = _median_us(run)
        except Exception:
            cpu_us = float("nan")
        # Operators inside the call matter only if they are wrong themselves.
        reports = [r for r in compared.reports if r["operator"] == self.name or r["verdict"] == "wrong"]
        for report in reports:
            report["location"] = self.content["location"]  # not that of this function's callers
        if self.content["error"] and reports:
            reports[-1]["reason"] = f"no longer fails; error when saved: {self.content['error']}"
        return Replay(reports, device_us, cpu_us)

    def _failure(self, device: str, error: Exception) -> Report:
        """The report of a call that raised."""
        message, saved = first_line(self.error_message(error)), self.content["error"]
        # Either message may start with the name of the exception.
        if saved and (message in saved or saved in message):
            reason = f"same error as when saved: {message}"
        else:
            reason = f"{message}; error when saved: {saved}" if saved else message
        try:
            with self.on_cpu(device) as run:
                run()
            cpu = "the CPU succeeds"
        except Exception as cpu_error:
            cpu = f"the CPU fails too: {first_line(self.error_message(cpu_error))}"
        return {
            "operator": self.name,
            "tier": self.content["tier"],
            "location": self.content["location"],
            "verdict": "fails",
            "reason": f"{reason}; {cpu}",
        }

    def embedded(self) -> str | None:
        """A Python expression for the bytes of the file; None if they are too many."""
        packed = base64.b64encode(zlib.compress(self.path.read_bytes(), 9)).decode()
        return f'zlib.decompress(base64.b64decode("{packed}"))' if len(packed) <= MAX_EMBEDDED else None

    def called_at(self) -> str:
        """The location of the call, for a script's docstring."""
        return f", called at {self.content['location']}" if self.content["location"] else ""


def check_format(path: Path, content: object, expected: str) -> None:
    """Raise ``ValueError`` unless the content is a saved call of this version."""
    if not isinstance(content, dict) or content.get("format") != expected:
        raise ValueError(f"{path} is not a saved call")
    if content["version"] != VERSION:
        raise ValueError(f"{path} has format version {content['version']}; this Hardpoint reads version {VERSION}")


def origin(report: Report) -> Report:
    """The fields of a report that are saved with a call."""
    return {key: report.get(key, "") for key in ("location", "tier", "error")}


def _median_us(function: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS + 1):  # the first run may compile
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:]) * 1e6
