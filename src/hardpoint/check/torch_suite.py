"""PyTorch's own device-generic test files on the mounted device: ``hardpoint check suites PATH...``.

The files come from a checkout of PyTorch, best of the installed version, and are run as they are. Only tests that
PyTorch instantiates for each device are run.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fnmatch import translate
from importlib.metadata import version
from pathlib import Path

from hardpoint.check import runner, suite
from hardpoint.check.torch_worker import Job

#: Shipped exclusions.
EXCLUSIONS = Path(__file__).with_name("torch_exclusions.txt")
#: Files of the folder ``test`` that are run if a checkout is given, longest first.
FILES = (
    "test_ops.py",
    "test_ops_gradients.py",
    "test_ops_fwd_gradients.py",
    "test_linalg.py",
    "test_nn.py",
    "test_torch.py",
    "test_unary_ufuncs.py",
    "test_binary_ufuncs.py",
    "test_reductions.py",
    "test_foreach.py",
    "test_sparse.py",
    "test_sparse_csr.py",
    "test_modules.py",
    "test_autograd.py",
    "test_optim.py",
    "test_indexing.py",
    "test_tensor_creation_ops.py",
    "test_type_promotion.py",
    "test_view_ops.py",
    "test_shape_ops.py",
    "test_sort_and_select.py",
    "test_scatter_gather_ops.py",
    "test_segment_reductions.py",
    "test_serialization.py",
    "test_spectral_ops.py",
    "test_nestedtensor.py",
    "test_complex.py",
    "test_dlpack.py",
    "test_numpy_interop.py",
    "nn/test_convolution.py",
    "nn/test_dropout.py",
    "nn/test_embedding.py",
    "nn/test_multihead_attention.py",
    "nn/test_pooling.py",
)


def find_files(paths: Iterable[Path]) -> list[tuple[Path, str]]:
    """The test files among the paths, as folder ``test`` and path in it: files as they are, :data:`FILES` of
    checkouts."""
    found: list[tuple[Path, str]] = []
    for path in (path.resolve() for path in paths):
        if path.is_file():
            root = next((folder for folder in path.parents if folder.name == "test"), path.parent)
            found.append((root, path.relative_to(root).as_posix()))
        elif path.is_dir():
            root = path / "test" if (path / "test" / "test_torch.py").is_file() else path
            present = [(root, name) for name in FILES if (root / name).is_file()]
            if not present:
                raise ValueError(f"{path} has none of PyTorch's test files; give a checkout, or files in it")
            found += present
        else:
            raise ValueError(f"no file or folder {path}")
    if not found:
        raise ValueError("give a checkout of PyTorch, or test files in it")
    return list(dict.fromkeys(found))


def checkout_version(root: Path) -> str:
    """The version of the checkout, from its ``version.txt``."""
    try:
        return (root.parent / "version.txt").read_text().strip()
    except OSError:
        return "unknown"


class _Runner:
    """Runs each part of a file in its own process."""

    def __init__(self, job: Job, timeout: float, exclusions: Sequence[suite.Exclusion], stop: threading.Event) -> None:
        self.job = job
        self.timeout = timeout
        self.exclusions = exclusions
        self.stop = stop
        self.env = {**os.environ, "HARDPOINT_DEVICE": job.device}

    def _process(self, job: Job, folder: Path) -> str:
        """Run a job; returns why it failed, or empty. It may be silent for ``timeout`` seconds, longer at its start."""
        log = Path(job.log)
        log.unlink(missing_ok=True)
        job.save(folder / "job")
        size, since = 0, time.monotonic()

        def expired() -> str:
            nonlocal size, since
            if self.stop.is_set():
                return "interrupted"
            now = log.stat().st_size if log.exists() else 0
            if now != size:
                size, since = now, time.monotonic()
            limit = self.timeout if size else runner.LOADING
            return f"no result for {limit:g} s" if time.monotonic() - since >= limit else ""

        return suite.run_process("hardpoint.check.torch_worker", str(folder / "job"), self.env, expired)

    def tests(self, job: Job) -> suite.Outcome:
        """Run a job's tests; a crash fails the test it happens in, and the rest runs in a new process."""
        outcome = suite.Outcome()
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            while True:
                job = replace(job, log=str(log), skip=outcome.finished)
                ended = self._process(job, Path(folder))
                running = outcome.read(log)
                if not ended or self.stop.is_set():
                    return outcome
                outcome.fail(running or "import", ended)
                if not running:
                    return outcome

    def run(self, unit: tuple[Path, str, int, int]) -> suite.FileResult:
        """Run a part of a file on the device, and its failed tests again on the CPU."""
        root, file, part, parts = unit
        excluded = {}
        for exclusion in self.exclusions:
            at, _, name = exclusion.pattern.partition("::")
            if re.match(translate(at), file):
                excluded[translate(name or "*")] = exclusion.reason
        job = replace(self.job, root=str(root), file=file, part=part, parts=parts, exclude=excluded)
        found = self.tests(job)
        on_cpu = suite.Outcome()
        if found.failed:
            on_cpu = self.tests(replace(job, device="cpu", only=found.failed, exclude={}))
        return suite.judge(file, found, on_cpu, interrupted=self.stop.is_set())


def run(
    paths: Sequence[Path],
    *,
    exclusions: Path = EXCLUSIONS,
    jobs: int = 2,
    timeout: float = runner.TIMEOUT,
    memory: float = runner.MEMORY,
    pattern: str = "",
    sample: int = 0,
    seed: int = 0,
    progress: Callable[[int, int, suite.FileResult], None] | None = None,
) -> suite.SuiteReport:
    """Run test files on the chosen device, each in ``jobs`` parts, or in one if only a sample of its tests runs.

    ``pattern`` selects tests by name, ``sample`` is the maximum per file, and ``seed`` chooses the sample.
    """
    from hardpoint import _discovery

    start = time.monotonic()
    files = find_files(paths)
    device = str(_discovery.choose().name)
    stop = threading.Event()
    job = Job("", "", "", device, pattern=pattern, sample=sample, seed=seed, memory=memory)
    parts = 1 if sample else jobs
    units = [(root, file, part, parts) for root, file in files for part in range(parts)]
    runner_ = _Runner(job, timeout, suite.read_exclusions(exclusions), stop)
    results = suite.run_units(units, runner_.run, jobs, stop, progress)
    options = {"pattern": pattern, "sample": f"{sample} of each file, seed {seed}" if sample else ""}
    return suite.SuiteReport(
        "PyTorch's tests",
        device,
        results,
        {name: version(name) for name in ("hardpoint", "torch")} | {"checkout": checkout_version(files[0][0])},
        {name: value for name, value in options.items() if value},
        round(time.monotonic() - start, 1),
        stop.is_set(),
    )
