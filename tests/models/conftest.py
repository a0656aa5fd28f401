"""The device under test, and synchronization after every test."""

from __future__ import annotations

import os

os.environ.setdefault("HARDPOINT_DEVICE", "sim")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # models are built from configurations, without downloads

import pytest
import torch


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore:.*runs on the CPU.*:UserWarning")


@pytest.fixture(autouse=True)
def _synchronize():
    yield
    torch.sim.synchronize()
