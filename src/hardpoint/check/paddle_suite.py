"""Paddle's own test files on the mounted device: ``hardpoint check paddle PATH...``.

The files come from checkouts of Paddle or PaddleCustomDevice and are run as they are.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from hardpoint.check import runner, suite
from hardpoint.check.fork_server import ForkServer
from hardpoint.check.paddle_worker import Job

#: Seconds that one file may take on the device, and again on the CPU.
TIMEOUT = 120.0
#: Shipped exclusions.
EXCLUSIONS = Path(__file__).with_name("paddle_exclusions.txt")
#: Makes Paddle build and run static graphs in its older intermediate representation.
OLD_IR = {"FLAGS_enable_pir_api": "0", "FLAGS_enable_pir_in_executor": "0"}
#: Where Paddle's test library lies in a checkout, relative to its folder ``test``.
_LIBRARY = ("legacy_test", "", "rnn")


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
    """Runs each file in its own process, forked from one that has imported Paddle."""

    def __init__(
        self,
        device: str,
        library: list[str],
        timeout: float,
        env: dict[str, str],
        exclusions: Sequence[suite.Exclusion],
        stop: threading.Event,
    ) -> None:
        self.exclusions = exclusions
        self.stop = stop
        self.device = device
        self.library = library
        self.timeout = timeout
        quiet = {"GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore"}
        self.env = {**os.environ, **quiet, "HARDPOINT_DEVICE": device, **env}
        self._servers = threading.local()  # one for each thread
        self._started: list[ForkServer] = []

    def _server(self) -> ForkServer:
        if not hasattr(self._servers, "one"):
            self._servers.one = ForkServer("hardpoint.check.paddle_worker", self.env)
            self._started.append(self._servers.one)
        server: ForkServer = self._servers.one
        return server

    def close(self) -> None:
        """End the processes."""
        for server in self._started:
            server.stop()

    def tests(self, file: Path, device: str, only: Sequence[str]) -> suite.Outcome:
        """Run a file's tests; a crash fails the test it happens in, and the rest runs in a new process.

        The test in which the file's time runs out gets as much again, alone.
        """
        outcome = suite.Outcome()
        running = self._tests(file, device, only, outcome)
        if running and list(only) != [running] and not self.stop.is_set():
            alone = suite.Outcome()
            self._tests(file, device, [running], alone)
            outcome.statuses.update(alone.statuses)
        return outcome

    def _tests(self, file: Path, device: str, only: Sequence[str], outcome: suite.Outcome) -> str:
        """Returns the test in which the file's time ran out, if any."""
        limit, deadline = runner.LOADING, time.monotonic() + runner.LOADING

        def expired() -> str:
            nonlocal limit, deadline
            if self.stop.is_set():
                return "interrupted"
            if limit != self.timeout and log.exists() and log.stat().st_size:  # the first test has started
                limit, deadline = self.timeout, time.monotonic() + self.timeout
            return f"no result within {limit:g} s" if time.monotonic() >= deadline else ""

        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            while True:
                log.unlink(missing_ok=True)
                job = Job(str(file), str(log), device, self.library, list(only), outcome.finished)
                ended = self._server().run(job.argument(), expired)
                running = outcome.read(log)
                if not ended or self.stop.is_set():
                    return ""
                outcome.fail(running or "import", ended)
                late = time.monotonic() >= deadline
                if late:
                    outcome.skip_rest()
                if late or not running:
                    return running

    def run(self, file: Path) -> suite.FileResult:
        """Run a file on the device, and its failed tests again on the CPU."""
        for exclusion in self.exclusions:
            if exclusion.matches(file.name):
                return suite.FileResult(
                    file.name, Counter(excluded=1), reasons=Counter({f"excluded: {exclusion.reason}": 1})
                )
        found = self.tests(file, self.device, ())
        on_cpu = self.tests(file, "cpu", found.failed) if found.failed else suite.Outcome()
        return suite.judge(file.name, found, on_cpu, self.exclusions, self.stop.is_set())


def run(
    paths: Sequence[Path],
    *,
    library: Path | None = None,
    exclusions: Path = EXCLUSIONS,
    jobs: int = 2,
    timeout: float = TIMEOUT,
    old_ir: bool = False,
    progress: Callable[[int, int, suite.FileResult], None] | None = None,
) -> suite.SuiteReport:
    """Run test files on the chosen device.

    ``library`` is a checkout of Paddle, with the test library that PaddleCustomDevice's files import. ``old_ir`` builds
    all static graphs in Paddle's old representation, which its operator tests use for some of their checks anyway.
    """
    from hardpoint import _discovery

    start = time.monotonic()
    files = find_files(paths)
    device = str(_discovery.choose().name)
    stop = threading.Event()
    files_runner = _Runner(
        device, find_library(files, library), timeout, OLD_IR if old_ir else {}, suite.read_exclusions(exclusions), stop
    )
    try:
        results = suite.run_units(files, files_runner.run, jobs, stop, progress)
    finally:
        files_runner.close()
    return suite.SuiteReport(
        "Paddle's tests",
        device,
        results,
        {"hardpoint": version("hardpoint"), "paddlepaddle": version("paddlepaddle")},
        {"ir": "old" if old_ir else "default"},
        round(time.monotonic() - start, 1),
        stop.is_set(),
    )
