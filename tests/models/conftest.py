"""The device under test, the same start for every test, and a line for what is still served by the CPU tier."""

from __future__ import annotations

import os

os.environ.setdefault("HARDPOINT_DEVICE", "sim")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # models are built from configurations; nothing is fetched

import pytest
import torch


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore:.*runs on the CPU.*:UserWarning")


@pytest.fixture(autouse=True)
def _same_start():
    yield
    torch.sim.synchronize()
