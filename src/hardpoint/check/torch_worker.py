"""Run one of PyTorch's device-generic test files on the mounted device, or on the CPU, without editing it.

The process gets the path of a JSON file (:class:`Job`) and writes the log that :mod:`hardpoint.check.suite_worker`
describes. Tests have generic names, without the device's: ``TestLinalg.test_det_float32`` stands for
``TestLinalgCPU.test_det_cpu_float32`` and ``TestLinalgPRIVATEUSE1.test_det_sim_float32``.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import re
import sys
import unittest
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hardpoint.check import worker
from hardpoint.check.suite_worker import Log, tests_of


@dataclass
class Job:
    """What one process does."""

    #: Folder ``test`` of a checkout, and the file's path in it.
    root: str
    file: str
    log: str
    #: Name of the mounted device, or ``cpu``.
    device: str
    #: Tests to run; all if empty.
    only: list[str] = field(default_factory=list)
    #: Tests that ran already.
    skip: list[str] = field(default_factory=list)
    #: Regular expressions of excluded tests, with the reasons.
    exclude: dict[str, str] = field(default_factory=dict)
    #: Regular expression that tests must match.
    pattern: str = ""
    #: At most this many tests of the file; 0: all.
    sample: int = 0
    seed: int = 0
    #: The part of the selected tests that this process runs, and the number of parts.
    part: int = 0
    parts: int = 1
    #: GiB that the process may map after the start; 0: no limit.
    memory: float = 0

    def save(self, path: Path) -> None:
        """Write the file that the process reads."""
        path.write_text(json.dumps(asdict(self)))


def generic_name(class_name: str, test: str, devices: Sequence[str]) -> str:
    """The name of a test on any device."""
    for device in devices:
        class_name = class_name.removesuffix(device.upper())
        before, found, after = test.rpartition(f"_{device}")
        if found and (not after or after.startswith("_")):
            return f"{class_name}.{before}{after}"
    return f"{class_name}.{test}"


def select(names: Sequence[str], job: Job) -> list[str]:
    """The tests that the process runs. A sample depends on the names and the seed only."""
    if job.only:
        chosen = set(job.only)
        return [name for name in names if name in chosen]
    found = [name for name in names if re.search(job.pattern, name)]
    if job.sample and job.sample < len(found):
        kept = set(sorted(found, key=lambda name: zlib.crc32(f"{job.seed} {name}".encode()))[: job.sample])
        found = [name for name in found if name in kept]
    return found[job.part :: job.parts]


def _prepare(job: Job) -> None:
    """Mount the device, or leave it out of the process entirely, and set the limits."""
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "cpu" if job.device == "cpu" else "privateuse1"
    if job.device == "cpu":
        os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    import torch

    torch.set_num_threads(1)
    if job.device != "cpu":
        name = worker.mount()
        # Make the device reserve its address space before the limit.
        for index in range(torch.accelerator.device_count()):
            torch.ones(1, device=f"{name}:{index}").cpu().pin_memory()
    if job.memory:
        worker.limit_memory(job.memory)


def _wait_for_device() -> str:
    """Wait for the device: an error reported only now belongs to this test, not to the next one."""
    import torch

    try:
        torch.accelerator.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:1200]
    return ""


def _device_tests(module: Any, job: Job) -> dict[str, unittest.TestCase]:
    """The tests of classes that PyTorch instantiated for the device, by generic name."""
    from torch.testing._internal.common_device_type import DeviceTypeTestBase

    devices = ("cpu",) if job.device == "cpu" else ("privateuse1", job.device)
    found = {}
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, DeviceTypeTestBase) and value.__module__ == module.__name__:
            for test in tests_of(unittest.defaultTestLoader.loadTestsFromTestCase(value)):
                found[_name(test, devices)] = test
    return found


def _name(test: unittest.TestCase, devices: Sequence[str]) -> str:
    method = getattr(test, "_testMethodName", None)
    if method is None:  # a failed class fixture
        kind, _, path = test.id().partition(" (")
        name = path.removesuffix(")").rpartition(".")[2]
        for device in devices:
            name = name.removesuffix(device.upper())
        return f"{kind} ({name})"
    return generic_name(type(test).__name__, method, devices)


def _run_tests(job: Job, log: Log, tests: dict[str, unittest.TestCase]) -> None:
    log.write(tests=len(tests))
    done = set(job.skip)
    excluded = [(re.compile(pattern), reason) for pattern, reason in job.exclude.items()]
    suite = unittest.TestSuite()
    for name in select(sorted(tests), job):
        reason = next((reason for pattern, reason in excluded if pattern.match(name)), None)
        if name in done:
            continue
        if reason is not None:
            log.write(test=name, status="excluded", detail=reason)
        else:
            suite.addTest(tests[name])
    # Exclude the databases from collections, which take most of a run otherwise.
    gc.collect()
    gc.freeze()
    with worker.no_seeding_of_other_devices():
        suite.run(log)


def main(path: str) -> None:
    """Run a job."""
    worker.end_with_parent()
    faulthandler.enable()
    job = Job(**json.loads(Path(path).read_text()))
    file = Path(job.root) / job.file
    # As with `python test_x.py` in the folder: files import each other, and read their data relative to it.
    sys.path[:0] = [str(file.parent), job.root, str(Path(job.root).parent)]
    os.chdir(job.root)
    sys.argv = [str(file)]
    devices = ("cpu",) if job.device == "cpu" else ("privateuse1", job.device)
    with open(job.log, "a") as stream:
        settle = _wait_for_device if job.device != "cpu" else lambda: ""
        log = Log(stream, name=lambda test: _name(test, devices), settle=settle)
        _prepare(job)
        import hardpoint

        try:
            tests = _device_tests(importlib.import_module(file.stem), job)
        except (Exception, unittest.SkipTest) as error:
            status = "skipped" if isinstance(error, unittest.SkipTest) else "failed"
            log.write(test="import", status=status, detail=f"{type(error).__name__}: {error}"[:1200])
            return
        hardpoint.reset_counters()
        _run_tests(job, log, tests)
        log.write_tiers(hardpoint.counters())


if __name__ == "__main__":
    main(sys.argv[1])
    sys.stdout.flush()
    os._exit(0)  # some test files leave threads behind
