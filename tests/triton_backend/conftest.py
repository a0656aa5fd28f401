"""The device under test. Skips where Triton is not installed."""

from __future__ import annotations

import os

os.environ.setdefault("HARDPOINT_DEVICE", "sim")

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


@pytest.fixture
def counted():
    """Reset the counters; returns a function that reads them."""
    hardpoint.reset_counters()
    return hardpoint.counters


@pytest.fixture
def close():
    """Compare a tensor of the device with one of the CPU."""

    def check(got, want, tolerance=1e-5):
        torch.testing.assert_close(got.cpu().double(), want.double(), rtol=tolerance, atol=tolerance, equal_nan=True)

    return check
