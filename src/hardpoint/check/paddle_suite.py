"""Paddle's own test files on the mounted device: ``hardpoint check paddle PATH...``.

The files come from checkouts of Paddle or PaddleCustomDevice and are run as they are. A test that fails on the device
runs again on the CPU, to tell a defect of the device from one of the test or of Paddle.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hardpoint.check.paddle_worker import Job, is_fixture, owner

#: Seconds that one file may take on the device, and again on the CPU.
TIMEOUT = 120.0
#: Shipped exclusions.
EXCLUSIONS = Path(__file__).with_name("paddle_exclusions.txt")
#: Makes Paddle build static graphs in its older intermediate representation, and run them as they are.
OLD_IR = {"FLAGS_enable_pir_api": "0", "FLAGS_enable_pir_in_executor": "0"}
#: Where Paddle's test library lies in a checkout, relative to its folder ``test``.
_LIBRARY = ("legacy_test", "", "rnn")
#: In the order of the table. ``device only`` is a defect of the device.
STATUSES = ("passed", "device only", "cpu too", "skipped", "excluded")


@dataclass
class Failure:
    """A test that did not pass on the device."""

    test: str
    status: str
    detail: str


@dataclass
class FileResult:
    """Results of one test file."""

    file: str
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    #: Calls by tier, and operators that fell back to the CPU with their number of calls.
    tiers: Counter[str] = field(default_factory=Counter)
    cpu: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


@dataclass
class SuiteReport:
    """Results of all files."""

    device: str
    files: list[FileResult]
    versions: dict[str, str]
    ir: str
    seconds: float

    @property
    def counts(self) -> Counter[str]:
        """Tests by status."""
        return sum((result.counts for result in self.files), Counter())

    @property
    def tiers(self) -> Counter[str]:
        """Calls by tier."""
        return sum((result.tiers for result in self.files), Counter())

    @property
    def cpu(self) -> Counter[str]:
        """Calls in the CPU tier by operator."""
        return sum((result.cpu for result in self.files), Counter())

    @property
    def ok(self) -> bool:
        """Whether every test that passes on the CPU passes on the device."""
        return bool(self.files) and not self.counts["device only"]

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
        return fnmatch(file, at) and (fnmatch(test, name) if name else not test)


def read_exclusions(path: Path) -> list[Exclusion]:
    """Read lines of the form ``PATTERN: REASON``. Blank lines and those that start with ``#`` are comments."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        pattern, separator, reason = line.partition(": ")
        if not separator or not reason.strip():
            raise ValueError(f"{path}:{number}: an exclusion needs a reason: PATTERN: REASON")
        found.append(Exclusion(pattern.strip(), reason.strip()))
    return found


def find_files(paths: Iterable[Path]) -> list[Path]:
    """The test files among the paths: files as they are, ``test_*.py`` of folders."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(path.glob("test_*.py"))
        elif path.is_file():
            found.append(path)
        else:
            raise ValueError(f"no file or folder {path}")
    if not found:
        raise ValueError(f"no test_*.py in {', '.join(map(str, paths))}")
    return [path.resolve() for path in found]


def find_library(files: Iterable[Path], library: Path | None) -> list[str]:
    """Folders with Paddle's test library (``op_test.py``), from ``library`` or the files' own checkout."""
    candidates = [library] if library is not None else [folder for file in files for folder in file.parents]
    for folder in dict.fromkeys(candidates):
        for root in (folder, folder / "test", folder.parent):
            if (root / "legacy_test" / "op_test.py").is_file():
                return [str((root / name).resolve()) for name in _LIBRARY]
    if library is not None:
        raise ValueError(f"{library} has no test/legacy_test/op_test.py; give a checkout of Paddle")
    return []


class _Runner:
    """Runs files in processes of their own."""

    def __init__(self, device: str, library: list[str], timeout: float, env: dict[str, str]) -> None:
        self.device = device
        self.library = library
        self.timeout = timeout
        quiet = {"GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore"}
        self.env = {**os.environ, **quiet, "HARDPOINT_DEVICE": device, **env}

    def _process(self, job: Job, deadline: float) -> str:
        """Run a job; returns how it ended, empty if well."""
        command = [sys.executable, "-m", "hardpoint.check.paddle_worker", job.argument()]
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self.env, start_new_session=True
            )
            try:
                status = process.wait(max(deadline - time.monotonic(), 1))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return f"no result within {self.timeout:g} s"
            if status == 0:
                return ""
            output.seek(0)
            last = [line for line in output.read().decode(errors="replace").splitlines() if line.strip()][-6:]
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return "\n".join([f"the process ended with {name}", *last])

    def tests(self, file: Path, device: str, only: Sequence[str], skip: Sequence[str]) -> _Outcome:
        """Run a file's tests; a crash fails the test it happens in, and the rest runs in a new process."""
        outcome = _Outcome()
        deadline = time.monotonic() + self.timeout
        with tempfile.TemporaryDirectory() as folder:
            while True:
                log = Path(folder) / "log"
                log.unlink(missing_ok=True)
                done = [test for test in outcome.statuses if not is_fixture(test)]
                job = Job(str(file), str(log), device, self.library, list(only), [*skip, *done])
                ended = self._process(job, deadline)
                running = outcome.read(log)
                if not ended:
                    return outcome
                outcome.fail(running or "import", ended)
                if not running or time.monotonic() >= deadline:
                    return outcome

    def run(self, file: Path, exclusions: Sequence[Exclusion]) -> FileResult:
        """Run a file on the device, and again on the CPU what failed."""
        start = time.monotonic()
        name = file.name
        result = FileResult(name)
        if any(exclusion.matches(name) for exclusion in exclusions):
            result.counts["excluded"] += 1
            return result
        found = self.tests(file, self.device, (), ())
        result.tiers, result.cpu = found.tiers, found.cpu
        failed = {test: detail for test, (status, detail) in found.statuses.items() if status == "failed"}
        on_cpu = self.tests(file, "cpu", list(failed), ()).statuses if failed else {}
        for test, (status, _) in found.statuses.items():
            if any(exclusion.matches(name, test) for exclusion in exclusions):
                status = "excluded"
            elif status == "failed":
                status = "cpu too" if _fails(on_cpu, test) else "device only"
                result.failures.append(Failure(test, status, failed[test]))
            result.counts[status] += 1
        result.seconds = round(time.monotonic() - start, 1)
        return result


def _fails(statuses: dict[str, tuple[str, str]], test: str) -> bool:
    """Whether the test fails on the CPU, where a test of a class that cannot be set up, or of a file that cannot be
    imported, has no result of its own."""
    if test in statuses:
        return statuses[test][0] == "failed"
    return "import" in statuses or any(is_fixture(name) and owner(name) == owner(test) for name in statuses)


class _Outcome:
    """What the log of a file's processes says."""

    def __init__(self) -> None:
        self.statuses: dict[str, tuple[str, str]] = {}
        self.tiers: Counter[str] = Counter()
        self.cpu: Counter[str] = Counter()

    def read(self, log: Path) -> str:
        """Add a log; returns the test that it ends in, if any."""
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
            else:
                self.tiers.update(record["tiers"])
                self.cpu.update(record["cpu"])
        return running

    def fail(self, test: str, detail: str) -> None:
        self.statuses[test] = ("failed", detail)


def run(
    paths: Sequence[Path],
    *,
    library: Path | None = None,
    exclusions: Path = EXCLUSIONS,
    jobs: int = 2,
    timeout: float = TIMEOUT,
    old_ir: bool = False,
    progress: Callable[[int, int, FileResult], None] | None = None,
) -> SuiteReport:
    """Run test files on the chosen device.

    ``library`` is a checkout of Paddle, with the test library that PaddleCustomDevice's files import. ``old_ir`` builds
    all static graphs in Paddle's old representation, which its operator tests use for some of their checks anyway.
    """
    from hardpoint import _discovery

    start = time.monotonic()
    files = find_files(paths)
    device = str(_discovery.choose().name)
    excluded = read_exclusions(exclusions)
    runner = _Runner(device, find_library(files, library), timeout, OLD_IR if old_ir else {})
    results: list[FileResult] = []
    lock = threading.Lock()

    def run_one(file: Path) -> None:
        result = runner.run(file, excluded)
        with lock:
            results.append(result)
            if progress is not None:
                progress(len(results), len(files), result)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run_one, files))
    results.sort(key=lambda result: result.file)
    versions = {"hardpoint": version("hardpoint"), "paddlepaddle": version("paddlepaddle")}
    return SuiteReport(device, results, versions, "old" if old_ir else "default", round(time.monotonic() - start, 1))


def text(report: SuiteReport, console: Console, *, blockers: int = 25) -> None:
    """Print the table of files, the defects, and the operators that fell back to the CPU."""
    packages = ", ".join(f"{name} {number}" for name, number in report.versions.items())
    title = f"{report.device}: Paddle's tests in {report.seconds:.0f} s ({packages})"
    table = Table("file", *STATUSES, "calls in the CPU tier", "seconds", title=title)
    for result in report.files:
        table.add_row(result.file, *_row(result.counts, result.tiers), f"{result.seconds:.0f}")
    table.add_section()
    table.add_row(f"{len(report.files)} files", *_row(report.counts, report.tiers), f"{report.seconds:.0f}")
    console.print(table)
    for result in report.files:
        for failure in result.failures:
            if failure.status == "device only":
                console.print(f"[red]device only[/] {result.file}::{escape(failure.test)}", highlight=False)
                console.print(escape(failure.detail[:400]), highlight=False, style="dim")
    if report.cpu and blockers:
        table = Table("operator", "calls in the CPU tier")
        for operator, calls in report.cpu.most_common(blockers):
            table.add_row(operator, f"{calls:,}")
        console.print(table)


def _row(counts: Counter[str], tiers: Counter[str]) -> list[str]:
    whole = sum(tiers.values())
    return [*(str(counts[status]) for status in STATUSES), f"{tiers['cpu']:,} of {whole:,}" if whole else ""]
