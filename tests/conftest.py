"""Fixtures of all tests: seeds, and programs run in a fresh Python process."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import fork_server
import numpy as np
import pytest

# The workers share the cores. By default, waiting OpenMP threads spin, which takes several times the work's own CPU
# time when all cores are busy. torch reads the variable when it is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


# The same for every commit unless it is set. Thousands of tests compare with the CPU, and about every second set of
# random numbers contains a case where rounding alone exceeds a tolerance: a fixed set keeps the suite stable, other
# sets find bugs.
FIRST_SEED = os.environ.get("HARDPOINT_TEST_SEED", "")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if FIRST_SEED and terminalreporter.stats.get("failed"):
        terminalreporter.write_line(f"with the random numbers of HARDPOINT_TEST_SEED={FIRST_SEED}")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A seed that differs for each test."""
    return zlib.crc32(f"{FIRST_SEED} {request.node.nodeid}".encode())


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(autouse=True)
def _seed_torch(seed: int) -> None:
    if torch := sys.modules.get("torch"):
        torch.manual_seed(seed)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with many slow tests first: a long file at the end would leave the other workers idle."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])  # stable: files stay whole


def pytest_collection_finish() -> None:
    """Exclude imported modules from later garbage collections, which then only scan what a test allocated."""
    gc.collect()
    gc.freeze()


RunPython = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_python(tmp_path: Path, seed: int) -> RunPython:
    """Run a program in a fresh process. Keyword arguments are environment variables; None unsets one.

    ``SEED`` is set to ``seed``. Most programs are forked from a process that has imported torch; ``fresh`` starts
    a new one.
    """

    def run(
        program: str, *, check: bool = True, timeout: float = 100, fresh: bool = False, **variables: str | None
    ) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HARDPOINT_")}
        environment.update(HARDPOINT_DEVICE="sim", SEED=str(seed))
        for key, value in variables.items():
            environment.pop(key, None)
            if value is not None:
                environment[key] = value
        file = tmp_path / "program.py"
        file.write_text(textwrap.dedent(program))
        done = fork_server.run_python([file], cwd=tmp_path, env=environment, timeout=timeout, fresh=fresh)
        if check:
            assert done.returncode == 0, f"the program ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done

    return run
