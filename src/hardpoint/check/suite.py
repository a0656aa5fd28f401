"""A framework's own test files on the mounted device: processes, exclusions and the report.

:mod:`hardpoint.check.paddle_suite` and :mod:`hardpoint.check.torch_suite` say which files to run and how. A test that
fails on the device runs again on the CPU, to tell a defect of the device from one of the test or of the framework.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hardpoint.check.fork_server import describe_end
from hardpoint.check.suite_worker import is_fixture, owner

#: Columns of the table, in order. ``device only`` is a defect of the device.
STATUSES = ("passed", "device only", "cpu too", "skipped", "excluded", "not run")
#: Device-only failures printed with their message; the JSON file has all of them.
_SHOWN = 100
_NUMBER = re.compile(r"0x[0-9a-f]+|-?\d+(\.\d+)?(e[-+]?\d+)?")
_Unit = TypeVar("_Unit")


@dataclass
class Failure:
    """A test that did not pass on the device."""

    test: str
    status: str
    detail: str


@dataclass
class FileResult:
    """Results of one test file, or of a part of it."""

    file: str
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    #: Reasons of skipped and excluded tests, with their number.
    reasons: Counter[str] = field(default_factory=Counter)
    #: Calls by tier, and operators that fell back to the CPU with their number of calls.
    tiers: Counter[str] = field(default_factory=Counter)
    cpu: Counter[str] = field(default_factory=Counter)
    #: Tests that the file has, if more than were selected.
    tests: int = 0
    seconds: float = 0.0

    def add(self, part: FileResult) -> None:
        """Add another part of the file."""
        self.counts += part.counts
        self.failures += part.failures
        self.reasons += part.reasons
        self.tiers += part.tiers
        self.cpu += part.cpu
        self.tests = max(self.tests, part.tests)
        self.seconds = round(self.seconds + part.seconds, 1)


@dataclass
class SuiteReport:
    """Results of all files."""

    title: str
    device: str
    files: list[FileResult]
    versions: dict[str, str]
    #: What distinguishes this run from a default one.
    options: dict[str, str]
    seconds: float
    interrupted: bool = False

    def _sum(self, name: str) -> Counter[str]:
        return sum((getattr(result, name) for result in self.files), Counter())

    @property
    def counts(self) -> Counter[str]:
        """Tests by status."""
        return self._sum("counts")

    @property
    def tiers(self) -> Counter[str]:
        """Calls by tier."""
        return self._sum("tiers")

    @property
    def cpu(self) -> Counter[str]:
        """Calls in the CPU tier by operator."""
        return self._sum("cpu")

    @property
    def reasons(self) -> Counter[str]:
        """Reasons of skipped and excluded tests."""
        return self._sum("reasons")

    @property
    def classes(self) -> Counter[str]:
        """Messages of the device-only failures, with numbers left out."""
        return Counter(
            _NUMBER.sub("N", failure.detail.partition("\n")[0])[:160]
            for result in self.files
            for failure in result.failures
            if failure.status == "device only"
        )

    @property
    def ok(self) -> bool:
        """Whether every test that passes on the CPU passes on the device."""
        return bool(self.files) and not self.interrupted and not self.counts["device only"]

    def save(self, path: Path) -> None:
        """Write the full data to a JSON file."""
        path.write_text(json.dumps(self, default=vars, indent=1) + "\n")


@dataclass(frozen=True)
class Exclusion:
    """Tests not to run: a pattern for ``FILE`` or ``FILE::CLASS.TEST``, and why."""

    pattern: str
    reason: str

    def matches(self, file: str, test: str = "") -> bool:
        """Whether the file, or the test in it, is excluded."""
        at, _, name = self.pattern.partition("::")
        return fnmatchcase(file, at) and (fnmatchcase(test, name) if name else not test)


def read_exclusions(path: Path) -> list[Exclusion]:
    """Read lines of the form ``PATTERN: REASON``. Blank lines and those that start with ``#`` are comments."""
    found = []
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        pattern, separator, reason = line.partition(": ")
        if not separator or not reason.strip():
            raise ValueError(f"{path}:{number}: an exclusion needs a reason: PATTERN: REASON")
        found.append(Exclusion(pattern.strip(), reason.strip()))
    return found


class Outcome:
    """The results in the log of a file's processes."""

    def __init__(self) -> None:
        self.statuses: dict[str, tuple[str, str]] = {}
        self.tiers: Counter[str] = Counter()
        self.cpu: Counter[str] = Counter()
        self.tests = 0
        self._planned: list[str] = []

    def read(self, log: Path) -> str:
        """Add a log; returns the test that was running at its end, if any."""
        running = ""
        for line in log.read_text().splitlines() if log.exists() else ():
            try:
                record: dict[str, Any] = json.loads(line)
            except ValueError:
                continue  # a line cut off by a crash
            if "start" in record:
                running = record["start"]
            elif "test" in record:
                running = ""
                # A failed subtest comes before the result of its test.
                if self.statuses.get(record["test"], ("",))[0] != "failed":
                    self.statuses[record["test"]] = (record["status"], record["detail"])
            elif "planned" in record:
                self._planned = self._planned or record["planned"]
            elif "tests" in record:
                self.tests = record["tests"]
            else:
                self.tiers.update(record["tiers"])
                self.cpu.update(record["cpu"])
        return running

    def fail(self, test: str, detail: str) -> None:
        """Record a test that crashed its process."""
        self.statuses[test] = ("failed", detail)

    def skip_rest(self) -> None:
        """Mark the planned tests without a result as not run."""
        for test in self._planned:
            self.statuses.setdefault(test, ("not run", ""))

    @property
    def finished(self) -> list[str]:
        """Tests with a result."""
        return [test for test in self.statuses if not is_fixture(test)]

    @property
    def failed(self) -> list[str]:
        """Tests that failed, with class fixtures."""
        return [test for test, (status, _) in self.statuses.items() if status == "failed"]

    def fails(self, test: str) -> bool:
        """Whether the test failed here, also by a class that cannot be set up or a file that cannot be imported."""
        if test in self.statuses:
            return self.statuses[test][0] == "failed"
        return "import" in self.statuses or any(is_fixture(x) and owner(x) == owner(test) for x in self.statuses)


def judge(
    file: str, device: Outcome, cpu: Outcome, exclusions: Sequence[Exclusion] = (), interrupted: bool = False
) -> FileResult:
    """The verdicts on a file's tests, from their results on the device and of the failed ones on the CPU.

    If the run was interrupted, failures that did not run on the CPU are left out.
    """
    result = FileResult(file, tiers=device.tiers, cpu=device.cpu, tests=device.tests)
    for test, (status, detail) in device.statuses.items():
        excluded = next((exclusion.reason for exclusion in exclusions if exclusion.matches(file, test)), None)
        if excluded is not None:
            status, detail = "excluded", excluded
        elif status == "failed":
            if interrupted and test not in cpu.statuses:
                continue
            status = "cpu too" if cpu.fails(test) else "device only"
            result.failures.append(Failure(test, status, detail))
        if status in ("skipped", "excluded"):
            result.reasons[f"{status}: {detail}"] += 1
        result.counts[status] += 1
    return result


def run_process(module: str, argument: str, env: Mapping[str, str], expired: Callable[[], str]) -> str:
    """Run ``python -m module argument``; returns why it failed, or empty. ``expired`` gives a reason to end it now."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-m", module, argument],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(env),
            start_new_session=True,
        )
        while True:
            try:
                status = process.wait(0.5)
                break
            except subprocess.TimeoutExpired:
                if reason := expired():
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    return reason
        if status == 0:
            return ""
        output.seek(0)
        return describe_end(status, output.read())


def run_units(
    units: Sequence[_Unit],
    run: Callable[[_Unit], FileResult],
    jobs: int,
    stop: threading.Event,
    progress: Callable[[int, int, FileResult], None] | None,
) -> list[FileResult]:
    """Run files or parts of files side by side. Ctrl-C sets ``stop``; the results are those of the finished tests."""
    results: list[FileResult] = []
    lock = threading.Lock()

    def run_one(unit: _Unit) -> None:
        if stop.is_set():
            return
        start = time.monotonic()
        result = run(unit)
        result.seconds = round(time.monotonic() - start, 1)
        with lock:
            results.append(result)
            if progress is not None:
                progress(len(results), len(units), result)

    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(run_one, unit) for unit in units]
        try:
            wait(futures)
        except KeyboardInterrupt:
            stop.set()
    for future in futures:
        future.result()
    merged: dict[str, FileResult] = {}
    for result in results:
        merged.setdefault(result.file, FileResult(result.file)).add(result)
    return sorted(merged.values(), key=lambda result: result.file)


def text(report: SuiteReport, console: Console, *, blockers: int = 25) -> None:
    """Print the table of files, the defects, and the operators that fell back to the CPU."""
    packages = ", ".join(f"{name} {number}" for name, number in report.versions.items())
    title = f"{report.device}: {report.title} in {report.seconds:.0f} s ({packages})"
    table = Table("file", *STATUSES, "calls in the CPU tier", "seconds", title=title)
    for result in report.files:
        table.add_row(result.file, *_row(result.counts, result.tiers), f"{result.seconds:.0f}")
    table.add_section()
    table.add_row(f"{len(report.files)} files", *_row(report.counts, report.tiers), f"{report.seconds:.0f}")
    console.print(table)
    defects = [
        (result.file, failure)
        for result in report.files
        for failure in result.failures
        if failure.status == "device only"
    ]
    for file, failure in defects[:_SHOWN]:
        console.print(f"[red]device only[/] {file}::{escape(failure.test)}", highlight=False)
        console.print(escape(failure.detail[:400]), highlight=False, style="dim")
    if len(defects) > _SHOWN:
        console.print(f"and {len(defects) - _SHOWN:,} more; --json FILE lists all")
    _counts(console, report.classes, "message, device only", "tests", blockers)
    _counts(console, report.reasons, "reason", "tests", blockers)
    _counts(console, report.cpu, "operator", "calls in the CPU tier", blockers)


def _counts(console: Console, counts: Counter[str], name: str, number: str, limit: int) -> None:
    if counts and limit:
        table = Table(name, number)
        for key, count in counts.most_common(limit):
            table.add_row(escape(key), f"{count:,}")
        console.print(table)


def _row(counts: Counter[str], tiers: Counter[str]) -> list[str]:
    whole = sum(tiers.values())
    return [*(f"{counts[status]:,}" for status in STATUSES), f"{tiers['cpu']:,} of {whole:,}" if whole else ""]
