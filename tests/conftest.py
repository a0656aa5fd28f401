"""Fixtures of all tests: seeds, and programs run in a fresh Python process."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest


def _first_seed() -> str:
    """Seed of this run: the commit's hash, so a failing run can be repeated, unless HARDPOINT_TEST_SEED is set."""
    if given := os.environ.get("HARDPOINT_TEST_SEED"):
        return given
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or "0"


FIRST_SEED = _first_seed()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if terminalreporter.stats.get("failed"):
        whose = "" if "HARDPOINT_TEST_SEED" in os.environ else " for Paddle's tests; PyTorch's are the same without it"
        terminalreporter.write_line(f"with the random numbers of HARDPOINT_TEST_SEED={FIRST_SEED}{whose}")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A seed that differs for each test and each commit."""
    return zlib.crc32(f"{FIRST_SEED} {request.node.nodeid}".encode())


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture
def torch_seed(request: pytest.FixtureRequest) -> int:
    """A seed that is the same for every commit, unless HARDPOINT_TEST_SEED is set.

    Thousands of tests compare PyTorch operators with the CPU. About every second set of random numbers contains a case
    where rounding alone exceeds a tolerance, so a fixed set keeps the suite stable; other seeds search for bugs.
    """
    return zlib.crc32(f"{os.environ.get('HARDPOINT_TEST_SEED', '')} {request.node.nodeid}".encode())


@pytest.fixture(autouse=True)
def _seed_torch(torch_seed: int) -> None:
    if torch := sys.modules.get("torch"):
        torch.manual_seed(torch_seed)


def pytest_collection_finish() -> None:
    """Exclude imported modules from later garbage collections, which then only scan what a test allocated."""
    gc.collect()
    gc.freeze()


RunPython = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_python(tmp_path: Path, torch_seed: int) -> RunPython:
    """Run a program in a fresh process. Keyword arguments are environment variables; None unsets one.

    ``SEED`` is set to ``torch_seed``.
    """

    def run(
        program: str, *, check: bool = True, timeout: float = 100, **variables: str | None
    ) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HARDPOINT_")}
        environment.update(HARDPOINT_DEVICE="sim", SEED=str(torch_seed))
        for key, value in variables.items():
            environment.pop(key, None)
            if value is not None:
                environment[key] = value
        file = tmp_path / "program.py"
        file.write_text(textwrap.dedent(program))
        done = subprocess.run(
            [sys.executable, str(file)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=timeout
        )
        if check:
            assert done.returncode == 0, f"the program ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done

    return run
