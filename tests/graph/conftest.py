"""The device under test, and a reset of Dynamo and the counters around every test."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("HARDPOINT_DEVICE", "sim")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # models are built from configurations, without downloads
sys.path.append(str(Path(__file__).parents[1] / "models"))

import pytest
import torch

import hardpoint


@pytest.fixture(autouse=True)
def _reset():
    torch._dynamo.reset()
    hardpoint.reset_counters()
    yield
    torch._dynamo.reset()
    torch.sim.synchronize()
