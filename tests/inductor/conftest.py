"""The device under test, and a reset of Dynamo and the counters around every test."""

from __future__ import annotations

import os

os.environ.setdefault("HARDPOINT_DEVICE", "sim")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # a pool of processes takes longer to start than to compile

import pytest
import torch

import hardpoint


def pytest_ignore_collect(collection_path, config):
    """Triton has no wheels for some machines."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return True if collection_path.name.startswith("test_") else None
    return None


@pytest.fixture(autouse=True)
def _reset():
    torch._dynamo.reset()
    hardpoint.reset_counters()
    yield
    torch._dynamo.reset()
    torch.sim.synchronize()


@pytest.fixture
def triton_calls():
    """The number of launches of Triton kernels, and the operators that ran on the CPU."""

    def count():
        found = hardpoint.counters()
        launches = sum(tiers.get("portable", 0) for name, tiers in found.items() if name.startswith("triton::"))
        return launches, sorted(name for name, tiers in found.items() if "cpu" in tiers)

    return count
