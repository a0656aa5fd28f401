"""The device under test, and a check after every test that it left no device memory allocated."""

from __future__ import annotations

import gc
import os
import time

os.environ.setdefault("HARDPOINT_DEVICE", "sim")

import pytest
import torch

import hardpoint
import hardpoint.devices.sim


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore:.*runs on the CPU.*:UserWarning")


@pytest.fixture
def device() -> str:
    return "sim"


@pytest.fixture
def counted():
    """Reset the counters; returns a function that reads them."""
    hardpoint.reset_counters()
    return hardpoint.counters


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call":
        item.failed_call = report.failed
    return report


def _allocated() -> list[int]:
    return [torch.sim.memory_allocated(i) for i in range(torch.sim.device_count())]


def _more_than(before: list[int]) -> bool:
    return any(now > then for now, then in zip(_allocated(), before, strict=True))


def _settle() -> None:
    for index in range(torch.sim.device_count()):
        torch.sim.synchronize(index)


@pytest.fixture(autouse=True)
def _check_leaks(request):
    before = _allocated()
    yield
    hardpoint.devices.sim.set_fault("")
    torch.sim.set_device(0)
    if getattr(request.node, "failed_call", False):
        return  # the traceback keeps tensors alive
    _settle()
    if _more_than(before):
        gc.collect()
        _settle()
    # autograd's device thread may free its last tensors shortly after backward returns.
    deadline = time.monotonic() + 5
    while _more_than(before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _more_than(before), "device memory is still allocated after the test"
