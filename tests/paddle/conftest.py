"""Paddle with the device under test; everything in here is left out where Paddle or its adapter is missing."""

from __future__ import annotations

import os

os.environ.setdefault("HARDPOINT_DEVICE", "sim")

import numpy as np
import pytest

from hardpoint._runtime import package_file

# Where Paddle would look by itself if it were installed in the same folder.
os.environ.setdefault(
    "CUSTOM_DEVICE_ROOT", str(package_file("../paddle_custom_device/libhardpoint_paddle.so").resolve().parent)
)
paddle = pytest.importorskip("paddle", reason="Paddle is not installed")
paddle.disable_signal_handler()

import hardpoint  # noqa: E402


@pytest.fixture(autouse=True)
def on_device():
    """Each test starts on the first device, with dynamic graphs."""
    paddle.set_device("sim:0")
    yield
    paddle.set_device("sim:0")


@pytest.fixture
def counted():
    """Counters that start at zero."""
    hardpoint.reset_counters()
    return hardpoint.counters


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng()
