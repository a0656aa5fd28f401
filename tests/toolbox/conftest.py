"""The simulated device, and a start without rules, tools and counts."""

from __future__ import annotations

import os

os.environ.setdefault("HARDPOINT_DEVICE", "sim")

import pytest

import hardpoint
from hardpoint.toolbox import watching


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore:.*runs on the CPU.*:UserWarning")


@pytest.fixture(autouse=True)
def _nothing_on():
    hardpoint.reset_counters()
    yield
    assert watching._tools == (), "the test left a tool switched on"
    with hardpoint.fallback(""):
        pass


@pytest.fixture
def tiers():
    """Which tiers served an operator since the test began."""
    return lambda name: hardpoint.counters().get(f"aten::{name}", {})
