"""The device under test, small models, and programs of several processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("HARDPOINT_DEVICE", "sim")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch

import hardpoint

Launch = Callable[..., str]


@pytest.fixture
def device() -> str:
    return "sim"


@pytest.fixture
def counted() -> Callable[[], tuple[int, int]]:
    """Reset the counters; returns a function that gives the operators on the device and those in the CPU tier."""
    hardpoint.reset_counters()

    def read() -> tuple[int, int]:
        tiers = hardpoint.counters().values()
        on_cpu = sum(calls.get("cpu", 0) for calls in tiers)
        return sum(sum(calls.values()) for calls in tiers) - on_cpu, on_cpu

    return read


@pytest.fixture
def launch() -> Launch:
    """Run a program with a launcher, such as torchrun; returns its output."""

    def run(*command: str, timeout: float = 200, **variables: str) -> str:
        environment = {**os.environ, "HARDPOINT_DEVICE": "sim", "OMP_NUM_THREADS": "1", **variables}
        tools = f"{Path(sys.executable).parent}:{environment['PATH']}"
        environment["PATH"] = tools
        done = subprocess.run(
            [sys.executable, "-m", *command], env=environment, capture_output=True, text=True, timeout=timeout
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(autouse=True)
def _first_device() -> None:
    torch.sim.set_device(0)
