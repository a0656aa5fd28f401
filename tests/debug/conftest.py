"""Runs on the simulated device, and starts each test without rules, tools and counts."""

from __future__ import annotations

import os

os.environ.setdefault("HARDPOINT_DEVICE", "sim")

import pytest

import hardpoint
from hardpoint.debug._tool import base


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore:.*runs on the CPU.*:UserWarning")


@pytest.fixture(autouse=True)
def _nothing_on():
    hardpoint.reset_counters()
    yield
    assert base._active == (), "the test left a tool switched on"
    with hardpoint.fallback(""):
        pass


@pytest.fixture
def tiers():
    """The tiers that served an operator since the start of the test."""
    return lambda name: hardpoint.counters().get(f"aten::{name}", {})
